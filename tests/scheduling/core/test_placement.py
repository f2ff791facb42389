import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.placement import candidates, choose
from scheduling.core.types import Executor, Job


def job(**changes):
    return Job(
        **{
            "id": "j",
            "seq": 1,
            "tenant": "a",
            "workspace": "a1",
            "submitted_at": 0.0,
            "class_name": "normal",
            **changes,
        }
    )


def executor(name="x", **changes):
    return Executor(**{"id": name, "kinds": frozenset({"chat"}), "slots": 1, **changes})


def ids(found):
    return [one.id for one in found]


def test_an_executor_open_to_everybody_takes_a_plain_job():
    assert ids(candidates(job(), [executor("y"), executor("x")])) == ["x", "y"]


@pytest.mark.parametrize(
    ("place", "visible"),
    [
        ({}, True),
        ({"tenant": "a"}, True),
        ({"tenant": "a", "workspace": "a1"}, True),
        ({"tenant": "b"}, False),
        ({"tenant": "a", "workspace": "a2"}, False),
    ],
)
def test_an_executor_serves_its_tenant_or_workspace_only(place, visible):
    assert bool(candidates(job(), [executor(**place)])) is visible


@pytest.mark.parametrize(
    ("wanted", "offered", "eligible"),
    [
        ({"kind": "chat"}, {}, True),
        ({"kind": "embed"}, {}, False),
        ({"model": "m"}, {"models": frozenset({"m", "n"})}, True),
        ({"model": "m"}, {}, False),
        ({"region": "eu"}, {"region": "eu"}, True),
        ({"region": "eu"}, {"region": "us"}, False),
        ({"region": "eu"}, {}, False),
        ({}, {"region": "us"}, True),
        ({"labels": frozenset({"gpu"})}, {"labels": frozenset({"gpu", "fast"})}, True),
        ({"labels": frozenset({"gpu", "net"})}, {"labels": frozenset({"gpu"})}, False),
        ({}, {"available": False}, False),
    ],
)
def test_all_that_a_job_asks_for_must_be_offered(wanted, offered, eligible):
    assert bool(candidates(job(**wanted), [executor(**offered)])) is eligible


def test_the_least_loaded_executor_for_its_slots_and_weight_is_chosen():
    small, large = executor("a", slots=2), executor("b", slots=4)
    assert choose([small, large], {"a": 1, "b": 1}) is large
    heavy = executor("c", slots=2, weight=4)
    assert choose([small, heavy], {"a": 1, "c": 1}) is heavy


def test_an_equal_load_goes_to_the_smaller_id_in_any_reading_order():
    first, second = executor("a", slots=3), executor("b", slots=6)
    assert choose([second, first], {"a": 1, "b": 2}) is first


def test_a_full_executor_is_never_chosen():
    assert choose([executor("a"), executor("b")], {"a": 1}).id == "b"
    for eligible in ([executor("a")], [executor("a", slots=0)], []):
        with pytest.raises(ValueError, match="No executor has a free slot"):
            choose(eligible, {"a": 1})


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 30))
def test_jobs_placed_one_by_one_fill_every_slot_and_no_more(slots, count):
    executors = [executor(f"x{index}", slots=size) for index, size in enumerate(slots)]
    busy = {}
    for _ in range(count):
        if any(busy.get(one.id, 0) < one.slots for one in executors):
            chosen = choose(executors, busy)
            busy[chosen.id] = busy.get(chosen.id, 0) + 1
    assert sum(busy.values()) == min(count, sum(slots))
    assert all(busy.get(one.id, 0) <= one.slots for one in executors)

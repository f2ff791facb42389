"""Gates let only so many run at once, and bound what a forecast looks at where many wait for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.eta import forecast as forecasts
from scheduling.core.eta.forecast import forecast
from scheduling.core.eta.gates import Gates
from scheduling.core.policy import cycle
from scheduling.core.policy.limits import KEY_CAP, Limits
from tests.scheduling.core.pools import make_executor, make_job, make_live, make_state
from tests.scheduling.core.test_eta_forecast import finishes, plain_pools

NOW = 1000.0
KEY = {"shared": (("key", "k"),)}


@pytest.fixture
def few_looks(monkeypatch):
    """A forecast gives up after its first cycle."""
    monkeypatch.setattr(forecasts, "LOOKS_LEAST", 0)
    monkeypatch.setattr(forecasts, "LOOKS_EACH", 0)


def gates_of(state, at=0.0):
    return Gates(state, tuple(state.live.values()), at)


def test_a_job_starts_when_the_last_of_its_gates_has_a_place():
    caps = {("key", "k"): 1, ("user", "u"): 2}
    live = [make_live(make_job("old", expected_s=30.0, **KEY))]
    gates = gates_of(make_state(9, live=live, caps=caps))
    job = make_job("a", limits=(("user", "u"), ("tenant", "a")), **KEY)
    assert gates.enter(job, 5.0, 60.0) == 30.0
    assert gates.enter(job, 5.0, 60.0) == 90.0
    assert gates.enter(make_job("b", limits=(("user", "u"),)), 5.0, 60.0) == 90.0
    assert gates.enter(make_job("c"), 5.0, 60.0) == 5.0


def test_the_slots_of_the_executors_that_may_run_a_job_are_a_gate():
    one, two = (make_executor(name, 1, models=[name]) for name in ("m", "n"))
    live = [make_live(make_job("old", model="m", expected_s=30.0), executor="m")]
    gates = gates_of(make_state(9, live=live, executors=[one, two]))
    assert gates.enter(make_job("a", model="m"), 0.0, 60.0) == 30.0
    assert gates.enter(make_job("b", model="n"), 0.0, 60.0) == 0.0


def test_of_more_jobs_than_places_those_that_end_last_hold_them():
    live = [make_live(make_job(f"o{s}", expected_s=s, **KEY)) for s in (10.0, 20.0, 30.0)]
    gates = gates_of(make_state(9, live=live, caps={("key", "k"): 2}))
    assert gates.enter(make_job("a", **KEY), 0.0, 60.0) == 20.0


def test_a_gate_without_a_place_is_not_open():
    gates = gates_of(make_state(9, caps={("key", "k"): 0}))
    assert gates.are_open(make_job("a"))
    assert not gates.are_open(make_job("b", **KEY))
    assert not gates_of(make_state(9, executors=[make_executor(slots=0)])).are_open(make_job("c"))


def test_a_key_without_a_cap_of_its_own_has_the_default_of_its_scope():
    limits = Limits({("user", "u"): 3}, defaults=KEY_CAP)
    assert [limits.cap(key) for key in [("user", "u"), ("key", "k"), ("user", "v")]] == [3, 1, None]


def contended(jobs=2000):
    waiting = [make_job(f"j{n}", tenant=f"t{n % 9}", **KEY) for n in range(jobs)]
    return make_state(8, jobs=waiting, caps={("key", "k"): 1})


def test_a_backlog_that_waits_for_one_key_is_not_walked_for_ever(monkeypatch):
    looked, tested = [], cycle.tested
    monkeypatch.setattr(cycle, "tested", lambda *args: looked.append(1) or tested(*args))
    found = forecast(contended(), NOW, exact=2000)
    assert len(looked) < forecasts.LOOKS_EACH * 2000 + 2000
    assert 40 <= found.exact < 100
    assert found.starts == [NOW + 60 * n for n in range(2000)]
    assert [eta.approximate for _, eta in found.etas()].count(False) == found.exact


def test_what_stands_behind_such_a_backlog_starts_as_it_would_without_it(few_looks):
    state = contended(3)
    for name in ("free", "late"):
        state.wait(make_job(name, submitted_at=9.0, tenant="z", class_name="batch"))
    found = forecast(state, NOW, exact=3)
    assert (found.exact, finishes(found)["free"]) == (1, NOW + 60)
    assert finishes(found)["j2"] == NOW + 180
    starts, _, approximate = found.spread()
    assert starts.tolist() == [NOW, NOW + 60, NOW + 120, NOW, NOW]
    assert approximate.tolist() == [False, True, True, True, True]


def test_who_could_never_start_gets_no_time_from_the_lanes_either(few_looks):
    jobs = [make_job("a"), make_job("b"), make_job("c", **KEY), make_job("d", model="none")]
    state = make_state(1, jobs=jobs, caps={("key", "k"): 0})
    assert finishes(forecast(state, NOW)) == {"a": NOW + 60, "b": NOW + 120}


@given(plain_pools(), st.integers(0, 12), st.integers(0, 30))
def test_where_units_alone_bind_it_does_not_matter_when_the_looks_are_used_up(state, exact, looks):
    whole = forecast(state, NOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecasts, "LOOKS_LEAST", looks)
        patch.setattr(forecasts, "LOOKS_EACH", 0)
        found = forecast(state, NOW, exact=exact)
    assert finishes(found) == finishes(whole)
    assert found.exact <= min(exact, len(whole.job_ids))

"""The demo's own judgement of fairness can fail, and fails only what is unfair."""

from datetime import UTC, datetime

from telemachus.demo.findings import Placed, _is_lawful, _jain, _smallest_place

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COSTS = {"a": ("aurora", 1), "b": ("borealis", 2), "c": ("cirrus", 3)}


def placed(letters: str) -> list[Placed]:
    return [
        Placed(
            tenant=COSTS[letter][0],
            job_id=str(number),
            cost=COSTS[letter][1],
            turn=0,
            waited_s=0.0,
            at=NOW,
            submitted_at=NOW,
        )
        for number, letter in enumerate(letters)
    ]


def test_the_fair_order_is_lawful_wherever_the_count_begins():
    fair = "aaab" * 3 + "c" + ("aaab" * 3 + "c") * 4
    assert all(_is_lawful(placed(fair[start:])) for start in range(20))


def test_a_tenant_that_takes_everything_is_not_lawful():
    assert not _is_lawful(placed("abc" + "a" * 12 + "bc"))
    assert not _is_lawful(placed("abc" + "c" * 4 + "ab"))


def test_the_place_of_the_smallest_tenant_is_counted_from_one():
    assert _smallest_place(placed("aabc")) == 4


def test_even_service_has_an_index_of_one():
    assert _jain([2.0, 2.0, 2.0]) == 1.0
    assert round(_jain([1.0, 0.0]), 3) == 0.5

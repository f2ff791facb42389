"""Reviews in the core: they need a reviewer, and take nothing from anybody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.eta.forecast import forecast
from scheduling.core.policy.cycle import cycle, waits
from scheduling.core.policy.limits import Limits
from scheduling.core.policy.preempting import preempting
from scheduling.core.policy.settings import Policy, Preemption, with_reviews
from scheduling.core.policy.windows import Rate
from scheduling.core.types import GLOBAL, REVIEWS, UNLIMITED, ClassRule, Reason
from tests.scheduling.core.pools import make_executor, make_job, make_live, make_state

NOW = 1000.0
POLICY = with_reviews(Policy())


def review(name, *, tenant="a", **changes):
    return make_job(
        name, 0, tenant=tenant, charge=1, class_name=REVIEWS.name, kind=REVIEWS.name,
        limits=UNLIMITED, by_worker=False, **changes,
    )  # fmt: skip


def people(slots=2, **changes):
    return make_executor(
        "people", 0, kinds=frozenset({REVIEWS.name}), seats=slots, provider="human", **changes
    )


def pool(*jobs, slots=2, budget=6, reserve=0, machines=None, **changes):
    executors = [people(slots), *(machines or [make_executor(kinds=frozenset({"work"}))])]
    state = make_state(budget, reserve, executors=executors, policy=POLICY, **changes)
    for job in jobs:
        state.wait(job)
    return state


def work(name, cost=1, **changes):
    return make_job(name, cost, kind="work", **changes)


def placed(state, now=NOW):
    return [(one.spot.job.id, one.executor) for one in cycle(state, now)]


def test_a_policy_gets_the_class_of_reviews_in_front_unless_it_has_one():
    assert [rule.name for rule in POLICY.classes][:2] == ["review", "incident"]
    assert with_reviews(POLICY) == POLICY
    own = Policy(classes=(ClassRule(name="normal"), ClassRule(name="review")))
    assert with_reviews(own) is own


def test_a_review_is_placed_in_a_pool_that_is_overdrawn_and_behind_no_head():
    state = pool(review("r"), work("big", 6), work("old", 3), budget=6)
    state.start(make_live(work("runs", 5)))
    state.set_pool(state.pool.__class__(id="p", budget=2))
    assert state.free("normal") == -3
    assert placed(state) == [("r", "people")]
    assert state.use.total == 5


@pytest.mark.parametrize("full", ["global", "pool", "tenant", "workspace"])
def test_no_limit_binds_a_review(full):
    key = {"global": GLOBAL, "pool": ("pool", "p")}.get(
        full, (full, "a-1" if full == "workspace" else "a")
    )
    own = (("tenant", "a"), ("workspace", "a-1"))
    state = pool(caps={key: 1})
    live = work("runs", limits=own, shared=(GLOBAL, ("pool", "p")))
    state.start(make_live(live))
    state.wait(work("w", limits=own, shared=(GLOBAL, ("pool", "p"))))
    assert not state.has_free_slot() or full in ("tenant", "workspace")
    state.wait(review("r"))
    assert state.has_free_slot()
    assert placed(state) == [("r", "people")]


def test_a_hold_of_its_tenant_does_not_bind_a_review():
    state = pool(work("w"), review("r"))
    state.hold("a")
    assert placed(state) == [("r", "people")]


def test_a_review_counts_in_no_rate_and_waits_for_none():
    limits = Limits({})
    rate = Rate(requests=1)
    limits.set_rates({("tenant", "a"): rate, ("provider", "human"): rate}, ())
    state = pool(*(review(f"r{n}") for n in range(3)), work("w"), work("v"), limits=limits)
    assert placed(state) == [("r0", "people"), ("r1", "people"), ("w", "x")]
    (placement,) = [one for one in cycle(_ended(state, "r0"), NOW) if one.spot.job.id == "r2"]
    state.undo(placement)
    assert limits.windows["tenant", "a"].used(NOW) == (1, 0)
    assert limits.windows["provider", "human"].used(NOW) == (0, 0)


def _ended(state, job_id):
    state.end(job_id)
    return state


def test_as_many_lie_as_there_are_reviewers_and_the_next_waits_for_one():
    state = pool(*(review(f"r{n}") for n in range(3)))
    assert placed(state) == [("r0", "people"), ("r1", "people")]
    assert waits(state, NOW, 9) == {"r2": Reason.EXECUTOR_BUSY}
    state.end("r0")
    assert placed(state) == [("r2", "people")]


def test_without_a_reviewer_it_waits_for_an_executor():
    state = make_state(policy=POLICY)
    state.set_executors({"x": make_executor(kinds=frozenset({"work"}))})
    state.wait(review("r"))
    assert waits(state, NOW, 9) == {"r": Reason.NO_EXECUTOR}


def test_tenants_take_turns_before_the_reviewers():
    state = pool(slots=1)
    for name in ("a1", "a2", "a3", "b1", "b2"):
        state.wait(review(name, tenant=name[0]))
    order = []
    for _ in range(5):
        ((name, _executor),) = placed(state)
        order.append(name)
        state.end(name)
    assert order == ["a1", "b1", "a2", "b2", "a3"]


def test_how_long_work_takes_is_not_how_long_its_review_does():
    state = pool(review("r", expected_s=900.0, workflow="f"), slots=1)
    state.start(
        make_live(
            review("lies", expected_s=900.0, workflow="f"), executor="people", started_at=NOW - 100
        )
    )
    found = forecast(state, NOW, measured={"f": 5.0})
    assert found.running["lies"].finish == NOW + 800
    assert not found.running["lies"].overdue
    assert found.starts == [NOW + 800]
    assert found.finishes == [NOW + 1700]


def test_reviews_behind_the_exact_part_are_laid_as_if_they_took_a_unit():
    jobs = [review(f"r{n}", expected_s=10.0) for n in range(6)]
    state = pool(*jobs, work("w"), work("v"), slots=1)
    assert len(forecast(state, NOW, exact=2).starts) == 8
    assert len(forecast(pool(*jobs, slots=1), NOW, exact=2).starts) == 2


@given(
    costs=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    classes=st.data(),
    reviews=st.integers(1, 6),
    slots=st.integers(1, 4),
    budget=st.integers(0, 6),
    cap=st.integers(0, 3),
)
def test_reviews_start_as_reviewers_allow_and_change_nothing_for_the_others(
    costs, classes, reviews, slots, budget, cap
):
    names = [rule.name for rule in Policy().classes]
    jobs = [
        work(
            f"w{n}", cost, tenant=classes.draw(st.sampled_from("ab")), shared=(GLOBAL,),
            class_name=classes.draw(st.sampled_from(names)),
        )
        for n, cost in enumerate(costs)
    ]  # fmt: skip
    bare, both = (
        pool(*jobs, slots=slots, budget=budget, caps={GLOBAL: cap} if cap else None)
        for _ in range(2)
    )
    for number in range(reviews):
        both.wait(review(f"r{number}", tenant="ab"[number % 2]))
    alone = placed(bare)
    together = placed(both)
    assert [one for one in together if one[1] != "people"] == alone
    assert len([one for one in together if one[1] == "people"]) == min(reviews, slots)
    assert both.use.total == bare.use.total


def test_any_number_of_waiting_reviews_keeps_nobody_from_preempting():
    preemption = Preemption(enabled=True, min_run_s=10.0)
    state = pool(work("batch", 6, class_name="batch"), budget=6)
    state.policy = with_reviews(Policy(preemption=preemption))
    assert placed(state, NOW) == [("batch", "x")]
    for number in range(250):
        state.wait(review(f"r{number}"))
    assert len(placed(state, NOW)) == 2
    state.wait(work("fire", 6, class_name="incident"))
    (due,) = preempting(state, NOW + 60, yielding={"batch": 0}, stopping=())
    assert (due.job.id, [live.job_id for live in due.victims]) == ("fire", ["batch"])


def test_reviews_without_a_free_reviewer_are_passed_over_and_start_when_one_is_free():
    state = pool(*(review(f"r{number}") for number in range(5)), work("w"))
    assert placed(state) == [("r0", "people"), ("r1", "people"), ("w", "x")]
    assert state.has_reviewer() is False
    state.wait(work("w2"))
    assert placed(state) == [("w2", "x")]
    state.end("r0")
    assert placed(state) == [("r2", "people")]


def test_work_of_a_policys_own_class_of_that_name_waits_for_no_reviewer():
    state = make_state(
        policy=Policy(classes=(ClassRule(name="normal"), ClassRule(name=REVIEWS.name))),
        jobs=[make_job("j", class_name=REVIEWS.name)],
    )
    assert placed(state) == [("j", "x")]

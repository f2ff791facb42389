"""The reserve: incidents and control work go on when everything else is full."""

from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.policy.cycle import cycle
from scheduling.core.policy.settings import DEFAULT_CLASSES, Backfill, Policy
from scheduling.core.types import ClassRule
from tests.scheduling.core.pools import make_job, make_state

CONTROL = ClassRule(name="control", uses_reserve=True)
GENERAL = 4
"""The units outside the reserve."""


def placed(state, now=0.0):
    return [placement.spot.job.id for placement in cycle(state, now)]


@st.composite
def full_pools(draw):
    """A pool with more work than it has units for, in every class, and the reserve free."""
    reserve = draw(st.integers(2, 4))
    place = draw(st.integers(0, len(DEFAULT_CLASSES)))
    policy = Policy(
        classes=(*DEFAULT_CLASSES[:place], CONTROL, *DEFAULT_CLASSES[place:]),
        backfill=draw(st.sampled_from(Backfill)),
        age_after=0.0,
    )
    general = st.sampled_from(["expedite", "critical", "normal", "batch"])
    jobs = [
        make_job(
            f"j{index}",
            draw(st.integers(1, GENERAL)),
            class_name=draw(general),
            tenant=draw(st.sampled_from("abc")),
        )
        for index in range(draw(st.integers(8, 30)))
    ]
    state = make_state(GENERAL + reserve, reserve, jobs=jobs, policy=policy)
    cycle(state, 0.0)
    return state


@given(full_pools(), st.sampled_from("abcd"))
def test_an_incident_and_control_work_start_at_once_when_everything_else_is_full(state, tenant):
    state.wait(make_job("control", 1, class_name="control", tenant=tenant))
    state.wait(make_job("fire", 1, class_name="incident", tenant=tenant))
    assert sorted(placed(state, 1.0)) == ["control", "fire"]
    assert state.use.general <= GENERAL
    assert state.use.total == sum(live.cost for live in state.live.values())


@given(full_pools(), st.sampled_from(["expedite", "critical", "normal", "batch"]))
def test_the_reserve_goes_to_nobody_else(state, class_name):
    before = state.use.general
    state.wait(make_job("plain", 1, class_name=class_name, tenant="d"))
    assert len(placed(state, 1.0)) <= GENERAL - before
    assert state.use.reserved == 0

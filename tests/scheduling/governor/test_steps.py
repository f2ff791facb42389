"""Steps in the order: each is placed by the age of its job, and nothing is held in between."""

from dataclasses import replace

import pytest

from scheduling.controls.pools import pool_dial
from scheduling.executors.contract import Next
from scheduling.models import Attempt, Job, JobDependency, Pool
from tenants.limits import workspace_limit
from tenants.models import Workspace
from tests.scheduling.factories import WHO, done, make_tenant, submit
from tests.scheduling.governor.desk import Desk

STEP = replace(done(), next=Next(checkpoint={"round": 1}))
WAITS = replace(done(), next=Next(checkpoint={"round": 1}, waits=True))


@pytest.fixture
def acme(pool: Pool) -> Workspace:
    pool_dial(pool_id=pool.id, budget=1, reserve=0, **WHO)
    return make_tenant("acme", pool)


def test_a_step_goes_before_younger_jobs_of_its_own_and_takes_turns_with_others(
    desk: Desk, pool: Pool, acme: Workspace
) -> None:
    other = make_tenant("other", pool)
    flow, younger = submit(acme, 2)
    (theirs,) = submit(other)
    names = {str(flow.id): "flow", str(younger.id): "younger", str(theirs.id): "theirs"}
    served = [names[one] for one in desk.turn()]
    for _ in range(2):
        desk.finish(STEP, [flow])
        served += [names[one] for one in desk.turn()]
        if served[-1] == "theirs":
            desk.finish(done(), [theirs])
            served += [names[one] for one in desk.turn()]
    assert served == ["flow", "theirs", "flow", "flow"]
    assert len(desk.state(pool).live) == 1
    desk.finish(done(), [flow])
    assert [names[one] for one in desk.turn()] == ["younger"]
    steps = Attempt.objects.filter(job=flow).order_by("fence").values_list("fence", "step")
    assert list(steps) == [(1, 0), (2, 1), (3, 2)]


def test_a_parent_under_a_limit_of_one_leaves_it_to_its_child_and_comes_back(
    desk: Desk, pool: Pool, acme: Workspace
) -> None:
    """Case C40."""
    pool_dial(pool_id=pool.id, budget=4, reserve=0, **WHO)
    workspace_limit(workspace_id=acme.id, max_running=1, **WHO)
    (parent,) = submit(acme)
    assert desk.turn() == [str(parent.id)]
    desk.claim()
    (child,) = submit(acme)
    JobDependency.objects.create(job=parent, on=child, condition="ended", open=True)
    assert desk.turn() == []
    desk.finish(WAITS, [parent])
    assert desk.turn() == [str(child.id)]
    assert Job.objects.get(id=parent.id).reason == "waiting_on_child"
    assert len(desk.state(pool).live) == 1
    desk.finish(done(), [child])
    assert desk.turn() == [str(parent.id)]
    desk.finish(done(), [parent])
    assert desk.turn() == []
    assert desk.state(pool).live == {}

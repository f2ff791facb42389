"""A glance from outside agrees with the leader: same places, same turns, same reasons."""

import time
import uuid
from typing import Any

import pytest
from django.utils import timezone

from scheduling.controls.jobs import jobs_pause
from scheduling.controls.pools import pool_dial
from scheduling.events import valkey_client
from scheduling.governor.glance import JobMoved, Viewer, scene_of
from scheduling.governor.view import Stamp, build
from scheduling.models import Executor, Job, Pool
from scheduling.selectors.explanation.explain import Explanation, explain
from scheduling.selectors.explanation.scene import Scene
from scheduling.services.rehearsal import job_rehearse_again
from tenants.controls import tenant_weight
from tenants.limits import workspace_limit
from tenants.rbac import Reach
from tests.scheduling.factories import WHO, make_executor, make_tenant, place, submit
from tests.scheduling.governor.desk import Desk

ALL = Viewer(
    within=Reach(everywhere=True, tenants=frozenset(), workspaces=frozenset()), amounts=True
)


def scene(job: Job) -> Scene:
    at = timezone.now()
    return scene_of(job, job_rehearse_again(job, at), ALL, client=valkey_client(), at=at)


def explained(job: Job) -> Explanation:
    return explain(scene(job))


def published(desk: Desk, pool: Pool) -> dict[uuid.UUID, tuple[str, int | None, int | None]]:
    """Return the reason, place and turn of each waiting job as the leader would publish them."""
    built = build(desk.leader.book, Stamp(pool=str(pool.id), epoch=1, seq=1, now=time.time()))
    return {
        uuid.UUID(bytes=bytes(row["job"])): (
            built.header.reasons[row["reason"]],
            number if row["startable"] else None,
            int(row["turn"]) if row["turn"] >= 0 else None,
        )
        for number, row in enumerate(built.rows, start=1)
    }


@pytest.fixture
def mixed(desk: Desk, pool: Pool) -> Desk:
    """Four tenants: a and b wait for units, c is held, d runs as many jobs as it may."""
    pool_dial(pool_id=pool.id, budget=4, **WHO)
    make_executor(pool, "one-slot", slots=1, models_offered=["big"])
    a, b, c, d = (make_tenant(slug, pool, cost=1) for slug in "abcd")
    workspace_limit(workspace_id=d.id, max_running=1, **WHO)
    submit(a, 2, model="big")
    submit(d, 3)
    submit(b, 3, cost=2)
    submit(a, 3)
    submit(c, 2)
    tenant_weight(tenant_id=c.tenant_id, weight=0, **WHO)
    desk.turn()
    outgrown, paused = submit(b, cost=4), submit(a)
    jobs_pause(job_ids=[paused[0].id], **WHO)
    pool_dial(pool_id=pool.id, budget=3, **WHO)
    desk.turn()
    assert outgrown
    return desk


def test_a_glance_tells_of_every_waiting_job_what_the_leader_does(mixed, pool):
    told = published(mixed, pool)
    waiting = Job.objects.filter(state="queued").order_by("seq")
    assert {one.id for one in waiting} == set(told)
    found = {job.id: explained(job) for job in waiting}
    assert {name: str(one.reason) for name, one in found.items()} == {
        name: reason for name, (reason, _, _) in told.items()
    }
    assert len({one.reason for one in found.values()}) >= 6
    places = {
        name: next(c for c in one.checks if c.check == "order") for name, one in found.items()
    }
    for name, (_, number, turn) in told.items():
        if number is not None:
            facts: Any = places[name].facts
            assert (facts["place"], facts["turn"]) == (number, turn)


def test_a_job_that_moves_while_it_is_read_is_no_moment(mixed):
    stale = Job.objects.filter(state="queued", paused=False).first()
    place(stale, executor=Executor.objects.get(slug="one-slot"))
    with pytest.raises(JobMoved):
        scene(stale)

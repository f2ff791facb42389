"""The dispatch statement, and what it refuses."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.utils import timezone

from scheduling.controls.pools import pool_dial
from scheduling.core.policy.cycle import cycle
from scheduling.governor.dispatch import dispatch, remember
from scheduling.governor.loop import now_s
from scheduling.governor.messages import Sent
from scheduling.models import Attempt, Job, Pool, ServiceMemory
from scheduling.models.xact import CurrentXact
from scheduling.services.cancel import job_cancel
from tests.scheduling.factories import WHO, make_tenant, submit
from tests.scheduling.governor.desk import Desk


def decided(desk: Desk, pool: Pool) -> list[object]:
    """Take up what changed and decide, without storing it."""
    desk.leader._take_up()
    return list(cycle(desk.state(pool), now_s()))


def store(desk: Desk, pool: Pool, placements: list[object]) -> list[Sent]:
    return dispatch(
        desk.leader.book,
        placements,  # type: ignore[arg-type]
        pool=str(pool.id),
        epoch=desk.leader.epoch,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"state": "canceled", "finished_at": timezone.now(), "changed": CurrentXact()},
        {"paused": True, "changed": CurrentXact()},
        {"changed": CurrentXact()},
        {"state": "deferred", "changed": CurrentXact()},
    ],
)
def test_a_job_that_changed_after_the_decision_is_not_placed(
    desk: Desk, pool: Pool, change: dict[str, object]
) -> None:
    acme = make_tenant("acme", pool, cost=2)
    kept, other = submit(acme, 2)
    placements = decided(desk, pool)
    Job.objects.filter(id=other.id).update(**change)
    sent = store(desk, pool, placements)
    attempt = Attempt.objects.get()
    assert [one.attempt for one in sent] == [str(attempt.id)]
    assert attempt.job_id == kept.id
    state = desk.state(pool)
    assert list(state.live) == [str(kept.id)]
    assert sum(live.cost for live in state.live.values()) == 2
    assert state.order.memory(("normal", str(acme.tenant_id), None)).turn == 2


def test_a_refused_job_that_still_waits_is_placed_by_the_next_turn(desk: Desk, pool: Pool) -> None:
    job = submit(make_tenant("acme", pool))[0]
    placements = decided(desk, pool)
    Job.objects.filter(id=job.id).update(changed=CurrentXact())
    assert store(desk, pool, placements) == []
    assert desk.turn() == [str(job.id)]


def test_a_canceled_job_is_forgotten_by_the_next_turn(desk: Desk, pool: Pool) -> None:
    job = submit(make_tenant("acme", pool))[0]
    placements = decided(desk, pool)
    job_cancel(job_id=job.id, now=timezone.now(), **WHO)
    store(desk, pool, placements)
    assert desk.turn() == []
    assert desk.leader.book.rows == {}


def test_the_memory_is_stored_with_the_batch_and_only_when_it_changed(
    desk: Desk, pool: Pool
) -> None:
    acme = make_tenant("acme", pool, cost=3)
    submit(acme, 2)
    desk.turn()
    stored = ServiceMemory.objects.get(tenant=acme.tenant_id, workspace=None)
    assert (stored.turn, stored.used) == (6, 0)
    assert stored.last_placed_at is not None
    ServiceMemory.objects.update(turn=99)
    remember(desk.leader.book, desk.leader.epoch)
    assert set(ServiceMemory.objects.values_list("turn", flat=True)) == {99}


@pytest.mark.django_db(transaction=True)
def test_a_job_that_somebody_holds_locked_does_not_stop_the_leader(desk: Desk, pool: Pool) -> None:
    pool_dial(pool_id=pool.id, budget=2, reserve=0, **WHO)
    acme = make_tenant("acme", pool)
    locked, free = submit(acme, 2)
    placements = decided(desk, pool)

    def at_desk() -> list[Sent]:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET statement_timeout = '1s'")
            return store(desk, pool, placements)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        Job.objects.select_for_update().get(id=locked.id)
        sent = threads.submit(at_desk).result(timeout=5)
        assert len(sent) == 1
    assert desk.turn() == [str(locked.id)]
    assert set(Attempt.objects.values_list("job_id", flat=True)) == {locked.id, free.id}

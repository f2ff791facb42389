"""Leadership, and that nothing a former leader writes has any effect."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from scheduling.core.policy.cycle import cycle
from scheduling.executors.contract import ErrorClass
from scheduling.governor import lease
from scheduling.governor.dispatch import dispatch, remember
from scheduling.governor.loop import now_s
from scheduling.governor.sweep import Woken, settle_lost, unclaimed, wake
from scheduling.models import Attempt, Circuit, Executor, GovernorLease, Job, Pool, ServiceMemory
from tests.scheduling.factories import failed, make_tenant, set_circuit, settle, submit
from tests.scheduling.governor.desk import Desk

AGO = timedelta(minutes=1)


def expire() -> None:
    GovernorLease.objects.update(expires_at=timezone.now() - AGO)


@pytest.mark.django_db
def test_a_free_lease_is_taken_and_a_held_one_is_not() -> None:
    assert lease.take("a") == 1
    assert lease.take("b") is None
    assert GovernorLease.objects.get().holder == "a"


@pytest.mark.django_db
def test_each_taking_has_a_new_epoch() -> None:
    assert lease.take("a") == 1
    expire()
    assert lease.take("b") == 2


@pytest.mark.django_db
def test_a_lease_that_is_given_up_can_be_taken_at_once() -> None:
    assert lease.take("a") == 1
    lease.give_up(1)
    assert lease.take("b") == 2


@pytest.mark.django_db
def test_giving_up_a_former_epoch_ends_nobodys_lease() -> None:
    lease.take("a")
    lease.give_up(1)
    lease.take("b")
    lease.give_up(1)
    assert lease.renew(2)
    lease.require(2)


@pytest.mark.django_db
def test_renewing_extends_the_lease_by_database_time() -> None:
    lease.take("a")
    before = GovernorLease.objects.get().expires_at
    lease.renew(1)
    assert GovernorLease.objects.get().expires_at > before


@pytest.mark.django_db
def test_nothing_is_allowed_under_a_lease_that_ran_out() -> None:
    lease.take("a")
    lease.require(1)
    expire()
    with pytest.raises(lease.LeadershipLost):
        lease.require(1)


@pytest.mark.django_db
def test_a_lease_that_ran_out_is_renewed_while_nobody_took_it() -> None:
    lease.take("a")
    assert lease.renew(1)
    expire()
    assert not lease.renew(1)
    lease.require(1)


@pytest.mark.django_db
def test_a_lease_that_somebody_took_is_lost_whether_it_still_runs_or_not() -> None:
    lease.take("a")
    expire()
    lease.take("b")
    with pytest.raises(lease.LeadershipLost):
        lease.renew(1)
    expire()
    with pytest.raises(lease.LeadershipLost):
        lease.renew(1)


@pytest.mark.django_db(transaction=True)
def test_a_holder_that_loads_for_longer_than_its_lease_keeps_it(settings: Any) -> None:
    settings.GOVERNOR_LEASE_S = 1.5
    epoch = lease.take("a")
    assert epoch is not None
    with lease.kept(epoch):
        time.sleep(2.5)
        assert lease.take("b") is None
    lease.require(epoch)


@pytest.mark.django_db(transaction=True)
def test_of_many_that_ask_at_once_one_leads() -> None:
    barrier = threading.Barrier(6)

    def ask(number: int) -> int | None:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=10)
            return lease.take(f"g{number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as threads:
        epochs = list(threads.map(ask, range(6)))
    assert [one for one in epochs if one is not None] == [1]


@pytest.mark.django_db(transaction=True)
def test_a_second_taker_waits_for_no_longer_than_its_lock_timeout() -> None:
    lease.take("a")
    expire()
    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        lease_row = GovernorLease.objects.select_for_update().get()

        def ask() -> int | None:
            try:
                return lease.take("b")
            finally:
                connection.close()

        assert threads.submit(ask).result(timeout=5) is None
        assert lease_row.epoch == 1
    assert lease.take("c") == 2


@pytest.fixture
def former(desk: Desk, pool: Pool) -> Desk:
    """A leader with a waiting job to place, whose lease ran out and was taken by another."""
    acme = make_tenant("acme", pool)
    submit(acme)
    desk.turn()
    desk.finish(failed(ErrorClass.PROVIDER_ERROR))
    submit(acme)
    desk.leader._take_up()
    expire()
    assert lease.take("other") == 2
    return desk


def rows() -> list[Any]:
    tables = (Job, Attempt, ServiceMemory, Executor, Circuit)
    return [list(table.objects.order_by("id").values()) for table in tables]


def test_a_former_leaders_dispatch_changes_nothing_and_tells_it(former: Desk, pool: Pool) -> None:
    before = rows()
    placements = cycle(former.state(pool), now_s())
    assert placements
    with pytest.raises(lease.LeadershipLost):
        dispatch(former.leader.book, placements, pool=str(pool.id), epoch=1)
    assert rows() == before


def test_a_former_leader_wakes_resends_and_remembers_nothing(former: Desk, pool: Pool) -> None:
    acme = Job.objects.all()[0].workspace
    submit(acme)
    Job.objects.filter(state="waiting").update(wake_at=timezone.now() - AGO)
    Attempt.objects.filter(state="dispatched").update(sent_at=timezone.now() - AGO)
    set_circuit("open", timezone.now() - AGO)
    cycle(former.state(pool), now_s())
    before = rows()
    assert wake(1) == Woken(0, 0)
    assert unclaimed(former.leader.book, 1) == []
    remember(former.leader.book, 1)
    assert rows() == before


def test_a_former_leader_settles_no_lost_attempt(former: Desk, pool: Pool) -> None:
    submit(Job.objects.all()[0].workspace)
    job = Job.objects.filter(state="queued")[0]
    attempt = Attempt.objects.create(
        job=job, fence=1, executor=Executor.objects.get(), state="running", cost=1, charge=1,
        job_class="normal", expected_s=1, lease_until=timezone.now() - AGO,
        started_at=timezone.now() - AGO,
    )  # fmt: skip
    Job.objects.filter(id=job.id).update(state="running", fence=1)
    with pytest.raises(lease.LeadershipLost):
        settle_lost(1)
    attempt.refresh_from_db()
    assert attempt.state == "running"
    assert settle_lost(2) == 1
    assert settle([attempt], None).stale == 1


def test_a_turn_of_a_former_leader_ends_its_leadership(former: Desk) -> None:
    with pytest.raises(lease.LeadershipLost):
        former.leader.turn()

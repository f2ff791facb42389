"""Taking up changed rows misses nothing, whoever commits when."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.utils import timezone

from scheduling.governor import lease
from scheduling.governor.pickup import changed_rows
from scheduling.models import Job, Pool
from scheduling.services.cancel import job_cancel
from tenants.models import Workspace
from tests.scheduling.factories import WHO, make_tenant, submit
from tests.scheduling.governor.desk import Desk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def epoch(pool: Pool) -> int:
    epoch = lease.take("test")
    assert epoch is not None
    return epoch


@pytest.fixture
def acme(pool: Pool) -> Workspace:
    return make_tenant("acme", pool)


def taken(epoch: int) -> list[str]:
    return [row.id for row, _ in changed_rows(epoch)]


def test_a_changed_row_is_taken_up_once_in_the_order_of_arrival(
    epoch: int, acme: Workspace
) -> None:
    jobs = submit(acme, 3)
    assert taken(epoch) == [str(job.id) for job in jobs]
    assert taken(epoch) == []


def test_a_row_that_commits_late_is_taken_up_after_later_rows(epoch: int, acme: Workspace) -> None:
    written, go = threading.Event(), threading.Event()

    def late() -> str:
        try:
            with transaction.atomic():
                job = submit(acme)[0]
                written.set()
                assert go.wait(timeout=10)
                return str(job.id)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(late)
        assert written.wait(timeout=10)
        second = submit(acme)[0]
        assert taken(epoch) == [str(second.id)]
        go.set()
        assert taken(epoch) in ([first.result()], [])
    assert Job.objects.get(id=first.result()).seq < second.seq
    assert taken(epoch) in ([first.result()], [])
    assert not Job.objects.filter(changed=True).exists()


def test_a_row_that_is_locked_now_is_taken_up_when_it_is_free(epoch: int, acme: Workspace) -> None:
    locked, free = submit(acme, 2)

    def look() -> list[str]:
        try:
            return taken(epoch)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        Job.objects.select_for_update().get(id=locked.id)
        assert threads.submit(look).result(timeout=5) == [str(free.id)]
    assert taken(epoch) == [str(locked.id)]


def test_no_change_of_many_writers_is_missed_or_seen_as_it_was_before(
    desk: Desk, pool: Pool
) -> None:
    spaces = [make_tenant(f"t{n}", pool) for n in range(4)]
    epoch = desk.leader.epoch
    stop = threading.Event()
    seen: dict[str, str] = {}

    def write(space: Workspace) -> None:
        try:
            for number in range(8):
                jobs = submit(space, 3)
                if number % 2:
                    job_cancel(job_id=jobs[1].id, now=timezone.now(), **WHO)
        finally:
            connection.close()

    def read() -> None:
        try:
            while not stop.is_set():
                seen.update({row.id: row.state for row, _ in changed_rows(epoch)})
        finally:
            connection.close()

    with ThreadPoolExecutor(5) as threads:
        reader = threads.submit(read)
        try:
            for done in [threads.submit(write, space) for space in spaces]:
                done.result()
        finally:
            stop.set()
        reader.result()
    seen.update({row.id: row.state for row, _ in changed_rows(epoch)})
    assert seen == {str(job): state for job, state in Job.objects.values_list("id", "state")}
    assert len(seen) == 96

"""Taking up changed rows misses nothing, whoever commits when."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.utils import timezone

from scheduling.governor import lease
from scheduling.governor.pickup import changes_since, seen_now
from scheduling.governor.rows import JobRow
from scheduling.models import Job, Pool
from scheduling.models.xact import CurrentXact
from scheduling.services.cancel import job_cancel
from tenants.models import Workspace
from tests.scheduling.factories import WHO, make_tenant, submit
from tests.scheduling.governor.desk import Desk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def acme(pool: Pool) -> Workspace:
    return make_tenant("acme", pool)


class Reader:
    """Reads changes as the leader does, from its making on."""

    def __init__(self, epoch: int) -> None:
        self.seen = seen_now(epoch)

    def rows(self) -> list[JobRow]:
        changes = changes_since(self.seen)
        self.seen = changes.seen
        return [row for row, _ in changes.pairs]

    def taken(self) -> list[str]:
        return [row.id for row in self.rows()]


@pytest.fixture
def epoch(pool: Pool) -> int:
    epoch = lease.take("test")
    assert epoch is not None
    return epoch


@pytest.fixture
def reader(epoch: int) -> Reader:
    return Reader(epoch)


def test_a_changed_row_is_taken_up_once_in_the_order_of_arrival(
    reader: Reader, acme: Workspace
) -> None:
    jobs = submit(acme, 3)
    assert reader.taken() == [str(job.id) for job in jobs]
    assert reader.taken() == []


def test_a_row_that_commits_late_is_taken_up_after_later_rows(
    reader: Reader, acme: Workspace
) -> None:
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
        assert reader.taken() == [str(second.id)]
        assert reader.taken() == []
        go.set()
        assert Job.objects.get(id=first.result()).seq < second.seq
    assert reader.taken() == [first.result()]
    assert reader.taken() == []


def test_a_row_that_somebody_is_changing_is_taken_up_as_it_becomes(
    reader: Reader, acme: Workspace
) -> None:
    job, free = submit(acme, 2)

    def look() -> list[JobRow]:
        try:
            return reader.rows()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        Job.objects.filter(id=job.id).update(paused=True, changed=CurrentXact())
        before = threads.submit(look).result(timeout=5)
        assert [(row.id, row.paused) for row in before] == [
            (str(job.id), False),
            (str(free.id), False),
        ]
    assert [(row.id, row.paused) for row in reader.rows()] == [(str(job.id), True)]


def test_rows_of_another_server_are_taken_up_once(
    reader: Reader, acme: Workspace, epoch: int
) -> None:
    job = submit(acme)[0]
    Job.objects.update(changed="9000000000000000000")
    assert reader.taken() == [str(job.id)]
    former = Reader(epoch - 1)
    assert former.taken() == [str(job.id)]
    restored = Reader(epoch)
    assert restored.taken() == []
    Job.objects.update(paused=True, changed=CurrentXact())
    assert restored.taken() == [str(job.id)]


def test_no_change_of_many_writers_is_missed_or_seen_as_it_was_before(
    desk: Desk, pool: Pool
) -> None:
    spaces = [make_tenant(f"t{n}", pool) for n in range(4)]
    reader = Reader(desk.leader.epoch)
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
                seen.update({row.id: row.state for row in reader.rows()})
        finally:
            connection.close()

    with ThreadPoolExecutor(5) as threads:
        reading = threads.submit(read)
        try:
            for done in [threads.submit(write, space) for space in spaces]:
                done.result()
        finally:
            stop.set()
        reading.result()
    seen.update({row.id: row.state for row in reader.rows()})
    assert seen == {str(job): state for job, state in Job.objects.values_list("id", "state")}
    assert len(seen) == 96

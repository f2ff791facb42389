"""Whatever ends a run, its slot comes back (C36): a user who may run one job runs the next."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.utils import timezone

from scheduling.executors.contract import ErrorClass, Outcome, Status, Usage
from scheduling.executors.registry import SHARED
from scheduling.models import Attempt, Pool
from scheduling.services.cancel import job_cancel
from scheduling.tasks.execute import attempts_run
from scheduling.tasks.process import Process, leave, present
from tests.scheduling.factories import WHO, done, failed, make_policy, make_tenant, submit
from tests.scheduling.governor.desk import Desk

ROUNDS = 100


class Broken(Exception):
    """A parser met what it did not expect."""


class Faulty:
    """An executor whose next run ends as it is told."""

    def __init__(self) -> None:
        self.end: Callable[[Any], Outcome] = lambda _work: done()

    def dispatch(self, work: Any, _cancel_event: threading.Event) -> Outcome:
        return self.end(work)


def client_gone(work: Any) -> Outcome:
    """Three pieces were sent when the client hung up, and its job was canceled for it."""
    job_cancel(job_id=work.job_id, now=timezone.now(), **WHO)
    return Outcome(
        status=Status.CANCELED,
        error_class=ErrorClass.CANCELED,
        usage=Usage(requests=1, output_total=3, partial=True),
        partial_text="one two three",
    )


def parser_breaks(_work: Any) -> Outcome:
    raise Broken


def worker_exits(_work: Any) -> Outcome:
    raise SystemExit


ENDS = (
    client_gone,
    lambda _work: failed(ErrorClass.TIMEOUT, requests=1),
    lambda _work: failed(ErrorClass.INVALID_REQUEST),
    parser_breaks,
    worker_exits,
)


@pytest.fixture
def process(pool: Pool) -> Iterator[Process]:
    leave()
    yield present(threads=4, queues=["simulated"])
    leave()


@pytest.mark.slow
def test_however_a_run_ends_its_slot_is_free_and_the_next_job_of_the_user_is_placed(
    desk: Desk, pool: Pool, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_policy(default_caps={"user": 1})
    acme, executor = make_tenant("acme", pool), Faulty()
    monkeypatch.setattr(SHARED, "get", lambda _spec: executor)

    def run(end: Callable[[Any], Outcome]) -> None:
        """Submit a job, which must be placed, and let its run end so."""
        executor.end = end
        (job,) = submit(acme, idempotent=False, max_attempts=1)
        assert desk.turn() == [str(job.id)]
        sent = desk.sent[-1]
        with contextlib.suppress(Broken, SystemExit):
            attempts_run([(sent.attempt, sent.fence)])
        desk.turn()
        live = Attempt.objects.filter(state__in=["dispatched", "running", "stopping"]).count()
        assert (live, desk.state(pool).use.total, desk.state(pool).live) == (0, 0, {})
        assert desk.leader.book.limits.counts.get(("user", "7"), 0) == 0

    for number in range(ROUNDS):
        run(ENDS[number % len(ENDS)])
        run(lambda _work: done())

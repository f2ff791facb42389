"""The task that runs attempts: claim, run, hand over for settling.

A message is a list of (attempt, fence): one for long work, several for short work. Whatever ends
a run, SystemExit included, its outcome is handed over, so nothing is left running in the books.
"""

import logging
import threading
from collections.abc import Callable, Sequence

from celery import shared_task
from celery.signals import (
    worker_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutting_down,
)
from django.conf import settings
from django.db import close_old_connections

from scheduling.executors.contract import (
    ErrorClass,
    ExecutorSpec,
    Outcome,
    Usage,
    Work,
    status_of,
)
from scheduling.executors.registry import SHARED
from scheduling.kinds.contract import Estimate
from scheduling.kinds.flow import KIND as FLOW
from scheduling.kinds.registry import MODEL_KINDS
from scheduling.services.settlement import Report
from scheduling.tasks import rounds
from scheduling.tasks.away import patiently
from scheduling.tasks.ceilings import bounded, left_of
from scheduling.tasks.claim import Claimed, attempts_claim
from scheduling.tasks.process import Process, leave, present
from tenants.connections import connections_trust
from tenants.prepared import prefer_indexes

log = logging.getLogger(__name__)

CLAIM_TRIES = 2
"""A dead connection is tried past; where the database is away for longer the message comes again."""

_shape: dict[str, object] = {"threads": 1, "queues": []}


@worker_init.connect
def shape_sessions(**_: object) -> None:
    """Let the sessions of this worker plan for full tables, and be taken from their pool unasked."""
    prefer_indexes()
    connections_trust()


@worker_ready.connect
def remember_shape(sender: object = None, **_: object) -> None:
    """Keep how many threads and which queues this worker has, and register it at once."""
    if sender is None:
        return
    _shape["threads"] = sender.controller.concurrency or 1  # type: ignore[attr-defined]
    queues = sender.controller.app.amqp.queues.consume_from  # type: ignore[attr-defined]
    _shape["queues"] = sorted(queues)
    _present()


@worker_shutting_down.connect
@worker_process_shutdown.connect
def goodbye(**_: object) -> None:
    """Say that no new work should come here; what runs is finished first."""
    threading.Thread(target=_leave_when_idle, name="leaving", daemon=False).start()


@shared_task(name="scheduling.attempts_run", ignore_result=True)
def attempts_run(pairs: list[tuple[str, int]]) -> None:
    """Run the attempts of one message, one after another."""
    process = _present()
    try:
        claimed = patiently(
            lambda: attempts_claim(worker_id=process.worker_id, pairs=pairs), CLAIM_TRIES
        )
    finally:
        close_old_connections()
    events = {one.attempt_id: threading.Event() for one in claimed}
    process.cancels.update(events)
    left = list(claimed)
    try:
        while left:
            _run_one(left[0], events[left[0].attempt_id], process)
            left.pop(0)
    finally:
        _hand_over_all(left, process)
        for one in claimed:
            process.cancels.pop(one.attempt_id, None)


def _run_one(claimed: Claimed, cancel: threading.Event, process: Process) -> None:
    executor = SHARED.get(_spec(claimed))
    try:
        outcome = _outcome(claimed, cancel, lambda work: executor.dispatch(work, cancel))
    finally:
        close_old_connections()
    _hand_over(claimed, outcome, process)


def _outcome(
    claimed: Claimed, cancel: threading.Event, dispatch: Callable[[Work], Outcome]
) -> Outcome:
    """Run the work within what is left of the job's own ceilings; a flow's is one round."""
    work = _work(claimed)
    if claimed.kind == FLOW:
        return rounds.round_run(claimed, work, cancel, dispatch)
    if claimed.kind not in MODEL_KINDS:
        return dispatch(work)
    asked = patiently(lambda: bounded(work, left_of(claimed), claimed))
    return asked if isinstance(asked, Outcome) else dispatch(asked)


def _hand_over(claimed: Claimed, outcome: Outcome, process: Process) -> None:
    """Hand a result over; a step that waits is settled alone: an end in its set may wait for it."""
    report = Report(attempt_id=claimed.attempt_id, fence=claimed.fence, outcome=outcome)
    alone = outcome.next is not None and outcome.next.waits
    if claimed.idempotent and not alone:
        process.results.put(report)
    else:
        process.settle_now([report])


def _hand_over_all(left: Sequence[Claimed], process: Process) -> None:
    """Give up what a fault or a shutdown kept from its end: the first was running, the others not.

    Those that never began have spent no try and are not charged for.
    """
    for place, one in enumerate(left):
        error = ErrorClass.CANCELED if place else ErrorClass.INTERNAL
        outcome = Outcome(
            status=status_of(error),
            error_class=error,
            message="The worker stopped before the work ended.",
            usage=Usage(),
        )
        _hand_over(one, outcome, process)


def _spec(claimed: Claimed) -> ExecutorSpec:
    return ExecutorSpec(
        name=claimed.executor,
        kind=claimed.executor_kind,
        slots=claimed.slots,
        endpoint=claimed.endpoint or None,
        api_key=settings.MODEL_API_KEYS.get(claimed.executor),
        models=frozenset(claimed.models),
    )


def _work(claimed: Claimed) -> Work:
    return Work(
        attempt_id=str(claimed.attempt_id),
        fence=claimed.fence,
        job_id=str(claimed.job_id),
        kind=claimed.kind,
        payload=claimed.payload,
        estimate=Estimate(input_tokens=claimed.input_tokens, output_tokens=claimed.output_tokens),
        model=claimed.model,
        checkpoint=claimed.checkpoint,
        max_spend=claimed.max_spend,
        max_tokens=claimed.max_tokens,
    )


def _present() -> Process:
    threads, queues = _shape["threads"], _shape["queues"]
    return present(
        threads=threads if isinstance(threads, int) else 1,
        queues=queues if isinstance(queues, list) else [],
    )


def _leave_when_idle() -> None:
    process = _present()
    process.threads = 0
    while process.cancels:
        threading.Event().wait(0.1)
    leave()

"""Executor kind `simulated`: waits as long as a payload says, and does nothing else.

It exists for demos, load tests and dry runs. It takes jobs of kind `simulated` alone, and its
results say that they are simulated. A run that is stopped leaves the seconds that it has done as its
checkpoint, and the next one waits only for those that are left.
"""

import time
from collections.abc import Callable
from threading import Event

from scheduling.executors.contract import (
    Cancel,
    Capabilities,
    Capacity,
    ErrorClass,
    ExecutorSpec,
    Health,
    Next,
    OnText,
    Outcome,
    Source,
    Traits,
    Usage,
    Work,
    status_of,
)
from scheduling.executors.running import Running
from scheduling.executors.usage import worker_seconds
from scheduling.kinds.contract import InvalidPayload
from scheduling.kinds.registry import served_on
from scheduling.kinds.simulated import Simulated as SimulatedKind

KIND = "simulated"
DONE = "seconds_done"

_JOB_KIND = SimulatedKind()


class Simulated:
    """Simulated runs, in as many threads as call it."""

    kind = KIND
    traits = Traits(idempotent=True, checkpoints=True, cancellable=True)

    def __init__(self, spec: ExecutorSpec, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._spec = spec
        self._clock = clock
        self._running = Running()

    def capabilities(self) -> Capabilities:
        """The kinds of job that name this executor kind."""
        return Capabilities(job_kinds=served_on(KIND), models=self._spec.models)

    def capacity(self) -> Capacity:
        """The configured slots, and what runs in this process."""
        return Capacity(limit=self._spec.slots, in_use=len(self._running.ids()))

    def health(self) -> Health:
        """Always ok: there is nothing that could be down."""
        return Health.OK

    def dispatch(
        self, work: Work, cancel_event: Event, *, on_text: OnText | None = None
    ) -> Outcome:
        """See `Executor.dispatch`; it has no text to give."""
        del on_text
        with self._running.track(work.attempt_id, cancel_event):
            started = self._clock()
            refused = _refusal(work)
            if refused:
                return _outcome(work, ErrorClass.INVALID_REQUEST, refused, 0.0)
            error_class = self._wait(work, cancel_event)
            elapsed_s = self._clock() - started
            return _outcome(work, error_class, _sentence(error_class), elapsed_s)

    def cancel(self, attempt_id: str) -> Cancel:
        """See `Executor.cancel`; the wait ends at once."""
        return self._running.cancel(attempt_id)

    def running(self) -> frozenset[str]:
        """See `Executor.running`."""
        return self._running.ids()

    def close(self) -> None:
        """Nothing to give back."""

    def _wait(self, work: Work, cancel_event: Event) -> ErrorClass | None:
        """Sleep; the class of the end, None if the time passed as asked."""
        seconds, limit = float(work.payload["seconds"]) - _done_s(work), work.max_runtime_s
        too_long = limit is not None and seconds > limit
        if cancel_event.wait(limit if too_long else max(0.0, seconds)):
            return ErrorClass.CANCELED
        if too_long:
            return ErrorClass.MAX_RUNTIME
        fail = work.payload.get("fail")
        return ErrorClass(fail) if fail else None


def _refusal(work: Work) -> str:
    if work.kind != _JOB_KIND.name:
        return f"jobs of kind {work.kind!r} are not simulated; send them to a real executor"
    try:
        _JOB_KIND.validate(work.payload)
    except InvalidPayload as error:
        return str(error)
    return ""


def _sentence(error_class: ErrorClass | None) -> str:
    return "" if error_class is None else f"simulated: {error_class.value}"


def _outcome(work: Work, error_class: ErrorClass | None, message: str, elapsed_s: float) -> Outcome:
    done = error_class is None
    stopped = error_class is ErrorClass.CANCELED
    return Outcome(
        status=status_of(error_class),
        usage=_usage(work, done=done, elapsed_s=elapsed_s),
        error_class=error_class,
        message=message,
        result={"simulated": True, "seconds": float(work.payload["seconds"])} if done else None,
        next=Next(checkpoint={DONE: _done_s(work) + elapsed_s}) if stopped else None,
    )


def _done_s(work: Work) -> float:
    """Return the seconds that earlier runs of the job have done."""
    return float((work.checkpoint or {}).get(DONE, 0.0))


def _usage(work: Work, *, done: bool, elapsed_s: float) -> Usage:
    """The tokens that the payload names, if the run came to its end; its time in any case."""
    tokens = (work.payload.get("tokens") or {}) if done else {}
    source = Source.REPORTED if tokens else Source.UNKNOWN
    return Usage(
        input_total=tokens.get("input", 0),
        output_total=tokens.get("output", 0),
        requests=int(done),
        worker_seconds=worker_seconds(elapsed_s),
        input_source=source,
        output_source=source,
        partial=False,
    )

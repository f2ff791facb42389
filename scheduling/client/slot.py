"""A slot: the leave to make one model call, held until it is released.

While it is held this process beats for it like a worker, so a slot whose process dies or freezes is
lost within seconds and its units are free again. Whatever ends the block of a slot, SystemExit
included, releases it. The key of the model server is not in it: the caller has its own.
"""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Self, TypeVar

from scheduling.client.outcomes import completed, failed, given_up
from scheduling.executors.contract import Outcome
from scheduling.kinds.contract import Estimate
from scheduling.services.settlement import Report
from scheduling.tasks.claim import Claimed
from scheduling.tasks.process import Process

T = TypeVar("T")

_present: "ContextVar[Slot | None]" = ContextVar("slot", default=None)


@dataclass(slots=True, kw_only=True, eq=False)
class Slot:
    """One placement of a job, to be run here. `canceled` is set when somebody wants it to end.

    `endpoint` is the address of the executor's model server ("" where it has none of its own).
    """

    job: uuid.UUID
    attempt: uuid.UUID
    fence: int
    executor: str
    executor_kind: str
    model: str
    endpoint: str
    estimate: Estimate
    canceled: threading.Event
    _process: Process = field(repr=False)
    _since: float = field(default_factory=time.monotonic, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _released: bool = field(default=False, repr=False)

    @property
    def released(self) -> bool:
        """Whether it has been given back."""
        return self._released

    @property
    def elapsed_s(self) -> float:
        """How long it has been held."""
        return time.monotonic() - self._since

    def complete(self, answer: object = None) -> None:
        """Release it after a call that gave an answer; its usage is read from there."""
        self.release(completed(answer, self.estimate, elapsed_s=self.elapsed_s))

    def fail(self, error: BaseException) -> None:
        """Release it after a call that raised."""
        self.release(failed(error, elapsed_s=self.elapsed_s))

    def release(self, outcome: Outcome | None = None) -> None:
        """Settle what became of it; None: no call was made. A second release does nothing.

        Returns when it is settled; tries again for as long as the database is away.
        """
        if not self._once():
            return
        report = self._report(outcome or given_up(elapsed_s=self.elapsed_s))
        try:
            self._process.settle_now([report])
        except BaseException:
            self._process.results.put(report)  # else we would beat for it as long as we live
            raise
        finally:
            self._process.cancels.pop(self.attempt, None)

    def abandon(self, answer: object) -> None:
        """Release it without waiting until that is settled; the process sees to it.

        The collector may call it amid anything that this thread does: it waits for no lock that
        the thread may hold.
        """
        if self._once():
            outcome = completed(answer, self.estimate, elapsed_s=self.elapsed_s)
            self._process.abandoned.append(self._report(outcome))
            self._process.cancels.pop(self.attempt, None)

    def _once(self) -> bool:
        with self._lock:
            first = not self._released
            self._released = True
        return first

    def _report(self, outcome: Outcome) -> Report:
        return Report(attempt_id=self.attempt, fence=self.fence, outcome=outcome)

    @contextmanager
    def at_hand(self) -> Iterator[None]:
        """Let `slot_now` tell of it inside the block; nothing is released."""
        before = _present.set(self)
        try:
            yield
        finally:
            _present.reset(before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            self.fail(error)
        else:
            self.complete()


async def in_thread(act: Callable[[T], None], given: T) -> None:
    """Release a slot from a coroutine, to the end even where that is canceled meanwhile."""
    await asyncio.shield(asyncio.to_thread(act, given))


def slot_now() -> Slot | None:
    """Return the slot that the present call is made in; None outside of one."""
    return _present.get()


def slot_of(claimed: Claimed, canceled: threading.Event, process: Process) -> Slot:
    """Return the slot of an attempt that this process has claimed."""
    return Slot(
        job=claimed.job_id,
        attempt=claimed.attempt_id,
        fence=claimed.fence,
        executor=claimed.executor,
        executor_kind=claimed.executor_kind,
        model=claimed.model,
        endpoint=claimed.endpoint,
        estimate=Estimate(input_tokens=claimed.input_tokens, output_tokens=claimed.output_tokens),
        canceled=canceled,
        _process=process,
    )

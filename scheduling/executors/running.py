"""The attempts that run in this process: the one truth behind `running`, `cancel` and `in_use`."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock

from scheduling.executors.contract import AlreadyRunning, Cancel


class Running:
    """Attempt ids with the events that cancel them; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._events: dict[str, Event] = {}

    @contextmanager
    def track(self, attempt_id: str, cancel_event: Event) -> Iterator[None]:
        """Count the attempt as running inside the block, however the block ends."""
        with self._lock:
            if attempt_id in self._events:
                message = f"attempt {attempt_id} runs here already"
                raise AlreadyRunning(message)
            self._events[attempt_id] = cancel_event
        try:
            yield
        finally:
            with self._lock:
                del self._events[attempt_id]

    def ids(self) -> frozenset[str]:
        """The attempts that run now."""
        with self._lock:
            return frozenset(self._events)

    def cancel(self, attempt_id: str) -> Cancel:
        """Set the attempt's event; an id that does not run here is unknown."""
        with self._lock:
            event = self._events.get(attempt_id)
        if event is None:
            return Cancel.UNKNOWN
        event.set()
        return Cancel.STOPPING

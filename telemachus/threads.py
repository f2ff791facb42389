"""The pool of threads that our workers run on: Celery's own, which here asks for work when it is free.

A worker that fetches a message only for a free thread stops asking while all are busy, and Celery's
event loop then sleeps until its next timer, up to a second: nobody tells it that a thread has become free
(Celery's issue 6941; processes tell it by their pipes). Here each thread that ends its work does.
"""

from concurrent.futures import Future

from celery.concurrency import thread
from kombu.asynchronous import get_event_loop


class TaskPool(thread.TaskPool):  # type: ignore[misc]
    """Threads that wake the worker's event loop when they are done."""

    def on_apply(self, *args: object, **options: object) -> thread.ApplyResult:
        """Hand a task to a thread."""
        result = super().on_apply(*args, **options)
        result.f.add_done_callback(_ask_again)
        return result


def _ask_again(_done: "Future[object]") -> None:
    """Wake the event loop, which then looks by itself whether it may fetch a message."""
    loop = get_event_loop()
    if loop is not None:
        loop.call_soon(int)  # type: ignore[no-untyped-call]  # anything that does nothing

"""A job's events as server-sent events, as they happen, to its end.

The view checks who asks and hands out the stream; from then on it lives in the server's event loop
and holds no thread. Its looks at the database go through a few threads of its own. Every few
seconds it asks anew whether the caller may still see the job, and ends if not. Needs an ASGI
server: a WSGI one would hold a thread for each stream.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, close_old_connections
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder

from scheduling.api.authentication import principal_again
from scheduling.api.places import Places, too_many
from scheduling.api.problems import Problem, invalid
from scheduling.api.serializers import event_told
from scheduling.models import Job, JobEvent
from scheduling.selectors.jobs import job_get
from scheduling.selectors.story import Story, story_since
from scheduling.services.drafts import FieldError
from tenants.rbac import Hidden, Principal

CONTENT_TYPE = "text/event-stream"
LAST_EVENT = "Last-Event-ID"
LOOK_EVERY_S = 0.5
CHECK_EVERY_S = 4.0
HEARTBEAT_S = 15.0
RETRY_MS = 2_000
STREAMS = Places(most=200, of_one=20)
"""The streams of this process."""

_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="streams")
_encode = JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def is_wanted(request: Request) -> bool:
    """Tell whether the caller accepts a stream of events."""
    accepted = request.headers.get("Accept", "").lower().split(",")
    return any(one.split(";")[0].strip() == CONTENT_TYPE for one in accepted)


def stream_of(request: Request, principal: Principal, job_id: uuid.UUID) -> HttpResponseBase:
    """Return the stream of a job that the caller sees; 204 when there is nothing more to come.

    Raises a `Problem`: 400 for a bad Last-Event-ID, 429 for too many streams, 501 where the server
    cannot stream.
    """
    if not isinstance(request._request, ASGIRequest):
        detail = "This server gives whole answers only; ask the one that serves the sockets."
        raise Problem(501, "no_streams", detail)
    after = _last_event(request)
    story = story_since(job_id, after)
    if story.whole and not story.events:
        return HttpResponse(status=204)  # ends the reconnecting of browsers
    who = principal.name
    if not STREAMS.take(who):
        raise too_many()
    close_old_connections()  # the stream may last; its request's connection must not
    stream = EventStream(job_id, after, principal, sees(principal_again(request), job_id))
    response = StreamingHttpResponse(stream, content_type=CONTENT_TYPE)
    response["X-Accel-Buffering"] = "no"
    return response


class EventStream:
    """The bytes of one stream; closing it gives its place back, once."""

    def __init__(
        self, job_id: uuid.UUID, after: int, principal: Principal, allowed: Callable[[], bool]
    ) -> None:
        """Begin behind the event numbered `after`; a place for the principal has been taken."""
        self._job_id = job_id
        self._after = after
        self._principal = principal
        self._allowed = allowed
        self._closed = False
        self._checked_at = self._told_at = time.monotonic()

    def close(self) -> None:
        """Give the place back."""
        if not self._closed:
            self._closed = True
            STREAMS.give_back(self._principal.name)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the events, and a comment where there were none for long."""
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            async for piece in self._pieces():
                self._told_at = time.monotonic()
                yield piece
        finally:
            self.close()

    async def _pieces(self) -> AsyncIterator[bytes]:
        while (story := await self._look()) is not None:
            for event in story.events:
                self._after = event.pk
                yield frame(event, self._principal)
            if story.whole:
                return
            if time.monotonic() - self._told_at >= HEARTBEAT_S:
                yield b": nothing new\n\n"
            await asyncio.sleep(0 if story.events else LOOK_EVERY_S)

    async def _look(self) -> Story | None:
        """Return what is new; None when the caller may not see it any more, or it is gone."""
        due = time.monotonic() - self._checked_at >= CHECK_EVERY_S
        if due:
            self._checked_at = time.monotonic()
        return await asyncio.wrap_future(_threads.submit(self._read, check=due))

    def _read(self, *, check: bool) -> Story | None:
        try:
            if check and not self._allowed():
                return None
            return story_since(self._job_id, self._after)
        except (Job.DoesNotExist, DatabaseError):
            return None  # the client comes back with the number of its last event
        finally:
            close_old_connections()


def sees(again: Callable[[], Principal | None], job_id: uuid.UUID) -> Callable[[], bool]:
    """Return what tells whether a caller still sees the job."""

    def allowed() -> bool:
        principal = again()
        try:
            return principal is not None and job_get(principal, job_id) is not None
        except Hidden:
            return False

    return allowed


def frame(event: JobEvent, principal: Principal) -> bytes:
    """Return an event as the stream writes it to a principal."""
    told = _encode(event_told(event, principal))
    return f"id: {event.pk}\nevent: {event.event}\ndata: {told}\n\n".encode()


def _last_event(request: Request) -> int:
    text = request.headers.get(LAST_EVENT, "").strip() or "0"
    if text.isascii() and text.isdecimal() and len(text) <= 18:
        return int(text)
    sentence = "Must be the number of an event of this job."
    raise invalid(FieldError(field=LAST_EVENT, sentence=sentence))

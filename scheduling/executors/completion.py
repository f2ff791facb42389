"""One chat completion over HTTP: the request, and the reading of whatever comes back.

An answer is whole when its end marker came, or a finish reason before the connection ended. A
connection that ends without either is an interruption, whatever had arrived by then, and what had
arrived is kept. Behind the finish reason only the usage is still awaited, and not for long.
"""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import httpcore
import httpx

from scheduling.executors.answer import Answer, openai_form
from scheduling.executors.contract import ErrorClass, OnText, Work
from scheduling.executors.endpoint import Endpoint
from scheduling.executors.faults import ServerFault, class_of_status, fault_in, message_in
from scheduling.executors.retry_after import retry_after_s
from scheduling.executors.sse import JsonLinesReader, LineTooLong, Reader, SseReader, StreamEvent
from scheduling.executors.usage import Meter
from scheduling.executors.watch import Stopped, Watch
from scheduling.executors.watched_http import WRITE_TIMEOUT_S
from scheduling.kinds.contract import ModelRequest

END_MARKER = "[DONE]"
MAX_BODY_BYTES = 32_000_000
MAX_ERROR_BYTES = 65_536
USAGE_WAIT_S = 5.0
END_WAIT_S = 0.2  # for the last bytes behind the marker; with them the connection can be kept

_READERS: dict[str, type[SseReader] | type[JsonLinesReader]] = {
    "": SseReader,
    "text/event-stream": SseReader,
    "application/x-ndjson": JsonLinesReader,
    "application/jsonl": JsonLinesReader,
}
_CUT = (httpcore.NetworkError, httpcore.ProtocolError, Stopped)


class Completion:
    """The state of one call; `answer` and `meter` tell how far it came, however it ends."""

    def __init__(self, work: Work, watch: Watch, on_text: OnText | None) -> None:
        self.answer = Answer()
        self.meter = Meter(work.estimate)
        self._work = work
        self._watch = watch
        self._on_text = on_text
        self._marked = False
        self.sent = False  # the request was given to the network

    def run(
        self,
        client: httpx.Client,
        endpoint: Endpoint,
        request: ModelRequest,
        now: Callable[[], datetime],
    ) -> None:
        """Make the call and read it to its end.

        Raises `ServerFault`, `Stopped` (a limit or a cancel), or an exception of httpcore.
        """
        body, headers = json.dumps(self._body(request)).encode(), endpoint.headers()
        url = endpoint.url("chat/completions")
        self.sent = True
        with client.stream(
            "POST",
            url,
            headers={**headers, "Content-Type": "application/json"},
            content=body,
            timeout=httpx.Timeout(WRITE_TIMEOUT_S, connect=self._work.connect_timeout_s),
        ) as response:
            try:
                self._read(response)
            except ServerFault as fault:
                fault.retry_after_s = retry_after_s(response.headers, now())
                raise

    @property
    def was_heard(self) -> bool:
        """Whether the request was sent and a server was there to take it."""
        return self.sent and self._watch.was_heard

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        return {
            **self._params(request),
            "model": self._work.model,
            "messages": list(request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _params(self, request: ModelRequest) -> dict[str, Any]:
        """The request's own fields, with its output bounded by what the job may still take."""
        most = self._work.output_limit
        if most is None:
            return request.params
        return {**request.params, "max_tokens": min(most, request.params.get("max_tokens", most))}

    def _read(self, response: httpx.Response) -> None:
        if response.status_code != httpx.codes.OK:
            raise refusal(response)
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        nothing = not media_type and response.headers.get("content-length") == "0"
        reader = None if nothing else _READERS.get(media_type)
        if reader is None:
            self._take_body(bounded(response, MAX_BODY_BYTES))
        else:
            self._take_stream(response.iter_bytes(), reader())

    def _take_body(self, data: bytes) -> None:
        """A whole completion, from a server that does not stream."""
        body = parsed(data)
        if not isinstance(body, dict):
            what = "is not JSON" if data.strip() else "has no body"
            raise ServerFault(ErrorClass.INVALID_RESPONSE, f"the response {what}")
        self._take(body)
        if not self.answer.begun:
            raise ServerFault(ErrorClass.INVALID_RESPONSE, "the response holds no choices")

    def _take_stream(self, pieces: Iterator[bytes], reader: Reader) -> None:
        for event in self._events(pieces, reader):
            if event.data.strip() == END_MARKER:
                self._marked = True
                self._watch.drain(END_WAIT_S)
            elif not self._marked:
                self._take_event(event)
        if not self._is_whole():
            raise ServerFault(ErrorClass.INTERRUPTED, "the stream ended before the answer did")
        if not self.answer.begun:
            raise ServerFault(ErrorClass.INVALID_RESPONSE, "the stream held no choices")

    def _events(self, pieces: Iterator[bytes], reader: Reader) -> Iterator[StreamEvent]:
        """All events of a stream; a cut is raised only if it costs us a part of the answer."""
        try:
            for piece in pieces:
                yield from reader.feed(piece)
        except LineTooLong as error:
            raise ServerFault(ErrorClass.INVALID_RESPONSE, str(error)) from error
        except _CUT:
            if not self._is_whole():
                raise
        yield from reader.close()

    def _is_whole(self) -> bool:
        return self._marked or self.answer.finish_reason is not None

    def _take_event(self, event: StreamEvent) -> None:
        piece = parsed(event.data.encode("utf-8", "replace"))
        if not isinstance(piece, dict):
            raise ServerFault(ErrorClass.INVALID_RESPONSE, "the stream holds what is not JSON")
        self._take(piece, event.name)
        if self._is_whole():
            self._watch.drain(USAGE_WAIT_S)

    def _take(self, raw: dict[str, Any], event_name: str = "") -> None:
        piece = openai_form(raw)
        self.meter.take(piece.get("usage"))
        fault = fault_in(piece, event_name)
        if fault is not None:
            raise fault
        text = self.answer.take(piece)
        if self.answer.has_token:
            self._watch.token_arrived()
        if text and self._on_text is not None:
            self._on_text(text)


def refusal(response: httpx.Response) -> ServerFault:
    """The fault of a response whose status is not 200; reads a bounded part of its body."""
    said = message_in(parsed(bounded(response, MAX_ERROR_BYTES, forgive=_CUT)))
    message = f"the server answered {response.status_code}" + (f": {said}" if said else "")
    return ServerFault(class_of_status(response.status_code), message)


def parsed(data: bytes) -> object:
    """The JSON value of some bytes, None if they hold none."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def bounded(
    response: httpx.Response, limit: int, forgive: tuple[type[Exception], ...] = ()
) -> bytes:
    """The body up to about the limit, or up to an exception that is forgiven."""
    body = bytearray()
    try:
        for piece in response.iter_bytes():
            body += piece
            if len(body) > limit:
                break
    except forgive:
        pass
    return bytes(body)

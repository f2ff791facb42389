"""A real HTTP server on loopback that answers each request by a script of raw steps.

It speaks bytes, not a framework's idea of HTTP, so that a test can break the protocol anywhere.
A step is bytes to send or a function to call; `KEEP` as a script's last step keeps the connection.
"""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

KEEP = object()
Step = bytes | Callable[["Talk"], None] | object


@dataclass
class Talk:
    """One request and the connection on which it came."""

    server: "ScriptedServer"
    connection: socket.socket
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class ScriptedServer:
    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._scripts: list[tuple[Step, ...]] = []
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.talks: list[Talk] = []
        self.connections = 0
        self.closing = threading.Event()
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._spawn(self._accept)

    def answer(self, *steps: Step) -> None:
        """Add the script of one more request; the last script answers all requests after it."""
        self._scripts.append(steps)

    def close(self) -> None:
        self.closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            _shut(connection)
        for thread in self._threads:
            thread.join(5)
        assert not any(thread.is_alive() for thread in self._threads)

    def _spawn(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while self._one_request(connection, stream):
                    pass
            except OSError:
                return  # the client went away, which many tests are about
            _shut(connection)

    def _read(self, connection: socket.socket, stream: Any) -> Talk | None:
        """Read a whole request; None where the client went away before its end, as killed ones do."""
        lines = []
        while (line := stream.readline()) != b"\r\n":
            if not line.endswith(b"\r\n"):
                return None
            lines.append(line.decode().strip())
        method, path, _ = lines[0].split(" ")
        pairs = (line.partition(":") for line in lines[1:])
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", 0))
        body = stream.read(length)
        if len(body) < length:
            return None
        return Talk(self, connection, method, path, headers, json.loads(body) if body else None)

    def _steps(self, talk: Talk) -> tuple[Step, ...]:
        """Note a request and return the script that answers it."""
        steps = self._scripts[min(len(self.talks), len(self._scripts) - 1)]
        self.talks.append(talk)
        return steps

    def _one_request(self, connection: socket.socket, stream: Any) -> bool:
        talk = self._read(connection, stream)
        if talk is None:
            return False
        for step in self._steps(talk):
            if step is KEEP:
                return True
            if callable(step):
                step(talk)
            else:
                connection.sendall(step)  # type: ignore[arg-type]
        return False


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # closed already
        connection.shutdown(socket.SHUT_RDWR)


def head(status: str = "200 OK", **headers: str) -> bytes:
    """A status line and headers; underscores in names become hyphens."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


STREAM_HEAD = head(Content_Type="text/event-stream")


def body(text: str | dict[str, Any], status: str = "200 OK", **headers: str) -> bytes:
    """A whole response; its connection is closed after it, unless the headers say otherwise."""
    data = (text if isinstance(text, str) else json.dumps(text)).encode()
    headers = {"Content_Type": "application/json", "Connection": "close"} | headers
    return head(status, Content_Length=str(len(data)), **headers) + data


def sse(*events: Any) -> bytes:
    """Events as server-sent events; a str is sent as it is."""
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def delta(text: str | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk with a piece of text."""
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}], **more}


def counts(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion, **more}}


def chunked(*pieces: bytes) -> bytes:
    """A complete chunked body."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))


OK_EVENTS = sse(delta("o"), delta("k", "stop"), {"choices": [], **counts(7, 2)}, "[DONE]")
OK_STREAM = (STREAM_HEAD, OK_EVENTS)
OK_KEPT = (
    head(Content_Type="text/event-stream", Transfer_Encoding="chunked"),
    chunked(OK_EVENTS),
    KEEP,
)


def hang(talk: Talk) -> None:
    """Say nothing more until the test is over."""
    talk.server.closing.wait(20)


def reset(talk: Talk) -> None:
    """Break the connection so that the client's read fails instead of ending."""
    talk.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    talk.connection.close()


def hang_up(talk: Talk) -> None:
    """End the connection without a word."""
    talk.connection.shutdown(socket.SHUT_RDWR)

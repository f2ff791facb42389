"""An HTTP transport whose every wait can be cut short by the watch of the call that waits.

A plain read timeout cannot do this: it sees neither a cancel nor the difference between a comment
and a token, and before the response's headers there is no response to close. So the socket is read
in short slices, and between them the current thread's `Watch` is asked. Connections are pooled and
shared by the threads of a process; the transport never retries.
"""

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpcore
import httpx

from scheduling.executors.watch import SLICE_S, Watch

KEPT_CONNECTIONS = 64
# Below the 5 s after which common servers drop an idle connection: reuse must not race with that.
KEEPALIVE_S = 4.0
WRITE_TIMEOUT_S = 10.0

SocketOptions = Iterable[
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
]

_CURRENT: ContextVar[Watch | None] = ContextVar("watch_of_this_call", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Let this watch cut short every network wait of this thread inside the block."""
    token = _CURRENT.set(watch)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class WatchedStream(httpcore.NetworkStream):
    """A connection that reads in slices while a watch is set."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes; raises `Stopped` as soon as the watch says so."""
        watch = _CURRENT.get()
        if watch is None:
            return self._stream.read(max_bytes, timeout)
        while True:
            watch.check()
            try:
                data = self._stream.read(max_bytes, SLICE_S)
            except httpcore.ReadTimeout:
                watch.check_silence()
            else:
                if data:
                    watch.bytes_arrived()
                return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        return WatchedStream(self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 (httpcore's own signature)
        return self._stream.get_extra_info(info)


class WatchedBackend(httpcore.SyncBackend):
    """Opens watched connections."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: SocketOptions | None = None,
    ) -> httpcore.NetworkStream:
        watch = _CURRENT.get()
        if watch is not None:
            watch.check()
        stream = super().connect_tcp(host, port, timeout, local_address, socket_options)
        if watch is not None:
            watch.connected()
        return WatchedStream(stream)


class ResponseBytes(httpx.SyncByteStream):
    """The body of a response, handed from the pool to the client."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class WatchedTransport(httpx.BaseTransport):
    """httpx on a pool of watched connections. Faults of the network are httpcore's exceptions."""

    def __init__(self) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=None,
            max_keepalive_connections=KEPT_CONNECTIONS,
            keepalive_expiry=KEEPALIVE_S,
            retries=0,
            network_backend=WatchedBackend(),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._pool.handle_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            status_code=response.status,
            headers=response.headers,
            stream=ResponseBytes(response),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._pool.close()


def open_client() -> httpx.Client:
    """A client for one executor: no proxy or password from the environment, no redirects."""
    return httpx.Client(
        transport=WatchedTransport(),
        trust_env=False,
        follow_redirects=False,
        headers={"Accept-Encoding": "identity", "User-Agent": "telemachus"},
    )

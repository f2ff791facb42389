"""Tool `http_get`: a text from a host of the allow-list, within bounds of size and time.

An entry of the list is a host, or host:port; the port must be the scheme's own unless one is named.
A name is resolved once and the connection goes to what it stood for, so that it cannot mean one
address when it is checked and another when it is used. Addresses of this machine and of private
networks are refused unless the list names the address itself. Each redirect is checked anew.
"""

import contextlib
import socket
import time
from collections.abc import Mapping
from ipaddress import ip_address
from threading import Event
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import httpcore
import httpx
from django.conf import settings

from billing.core.webhooks import is_public
from scheduling.executors.tools.contract import ToolFault, cut
from scheduling.executors.watch import Limits, Stopped, Watch
from scheduling.executors.watched_http import WatchedStream, watched

MOST_BYTES = 1_000_000
MOST_S = 15.0
CONNECT_S = 5.0
MOST_REDIRECTS = 3
LONGEST_URL = 2_000
DEFAULT_PORTS = {"http": 80, "https": 443}
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/xhtml")


class _ToOneAddress(httpcore.NetworkBackend):
    """Connects to the address that was checked, whatever the host's name stands for by now."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._own = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,  # noqa: ANN401
    ) -> httpcore.NetworkStream:
        del host
        stream = self._own.connect_tcp(self._address, port, timeout, local_address, socket_options)
        return WatchedStream(stream)


def http_get(arguments: Mapping[str, Any], cancel: Event) -> str:
    """The text at `url`, cut to the longest reply; a status that is not 200 is told with it."""
    url, watch = arguments["url"], Watch(Limits(whole_s=MOST_S), cancel, time.monotonic)
    try:
        with watched(watch):
            for _ in range(MOST_REDIRECTS + 1):
                answer = _fetched(url, watch)
                if not isinstance(answer, _Moved):
                    return cut(answer)
                url = urljoin(url, answer.to)
    except Stopped:
        message = f"The answer did not come within {MOST_S:g} seconds."
        raise ToolFault(message) from None
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        message = f"The host could not be read ({type(error).__name__})."
        raise ToolFault(message) from None
    message = f"It was sent on more than {MOST_REDIRECTS} times."
    raise ToolFault(message)


class _Moved:
    """A redirect."""

    def __init__(self, to: str) -> None:
        self.to = to


def _fetched(url: str, watch: Watch) -> str | _Moved:
    parts, port = _checked(url)
    address = _address(parts.hostname or "", port)
    watch.check()
    with (
        httpcore.ConnectionPool(network_backend=_ToOneAddress(address), retries=0) as pool,
        pool.stream(
            "GET",
            httpcore.URL(url.partition("#")[0]),
            headers={
                "Host": parts.netloc,
                "Accept": "text/*, application/json",
                "User-Agent": "telemachus",
            },
            extensions={"timeout": {"connect": CONNECT_S, "read": MOST_S, "write": CONNECT_S}},
        ) as response,
    ):
        headers = httpx.Headers(response.headers)
        if response.status in (301, 302, 303, 307, 308) and "location" in headers:
            return _Moved(headers["location"])
        return _text(response, headers)


def _checked(url: str) -> tuple[SplitResult, int]:
    """Return the parts of an address that is allowed, with its port."""
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError:
        raise ToolFault("That is no address.") from None
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        message = f"An address has at most {LONGEST_URL} printable ASCII characters."
        raise ToolFault(message)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or "@" in parts.netloc:
        raise ToolFault("An address begins with http:// or https:// and a host, and names no user.")
    if not _is_listed(parts.hostname, port, DEFAULT_PORTS[parts.scheme]):
        message = f"The host {parts.hostname} is not on the allow-list of this installation."
        raise ToolFault(message)
    return parts, port


def _is_listed(host: str, port: int, usual: int) -> bool:
    shown = f"[{host}]" if ":" in host else host
    names = {f"{shown}:{port}", *((shown,) if port == usual else ())}
    return any(entry.lower() in names for entry in settings.FLOW_HTTP_HOSTS)


def _address(host: str, port: int) -> str:
    """Return the address to connect to: the host's first, if all of them may be read."""
    with contextlib.suppress(ValueError):
        ip_address(host)
        return host  # an address that the list names itself
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        message = f"There is no host {host}."
        raise ToolFault(message) from None
    addresses = [str(one[4][0]) for one in found]
    if not all(map(is_public, addresses)):
        message = f"The host {host} is in a private network, which may not be read."
        raise ToolFault(message)
    return addresses[0]


def _text(response: httpcore.Response, headers: httpx.Headers) -> str:
    kind = headers.get("content-type", "text/plain").lower()
    if not kind.startswith(TEXT_TYPES):
        message = f"The answer is no text but {kind[:60]}."
        raise ToolFault(message)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ToolFault("The answer is packed, though a plain one was asked for.")
    data = bytearray()
    for piece in response.iter_stream():
        data += piece
        if len(data) > MOST_BYTES:
            message = f"The answer is longer than {MOST_BYTES} bytes."
            raise ToolFault(message)
    text = bytes(data).decode(_charset(kind), "replace")
    return text if response.status == 200 else f"[status {response.status}]\n{text}"


def _charset(kind: str) -> str:
    named = kind.partition("charset=")[2].partition(";")[0].strip(" \"'")
    try:
        "".encode(named or "utf-8")
    except (LookupError, ValueError):
        return "utf-8"
    return named or "utf-8"

"""Sockets only from our own pages: scheme, host and port of the Origin must be those asked for.

Browsers send cookies with a socket to any site's page, so a foreign page could open one in the
user's name. The check is the one that Django makes for forms: the very origin of the request's
Host, or one of CSRF_TRUSTED_ORIGINS. A browser always sends an Origin; without one we refuse.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatch
from typing import Any, TypeAlias

from django.conf import settings
from django.http.request import split_domain_port, validate_host

log = logging.getLogger(__name__)

Scope: TypeAlias = dict[str, Any]
Asgi: TypeAlias = Callable[
    [Scope, Callable[..., Any], Callable[..., Awaitable[None]]], Awaitable[None]
]


def is_own_origin(origin: str, host: str, *, secure: bool, trusted: Sequence[str]) -> bool:
    """Say whether `origin` is the page's own, given the Host header and the connection."""
    own = f"{'https' if secure else 'http'}://{host}".lower()
    return origin.lower() == own or any(fnmatch(origin.lower(), one.lower()) for one in trusted)


class OwnOriginOnly:
    """Refuses a WebSocket handshake (403) that does not come from our own pages."""

    def __init__(self, application: Asgi) -> None:
        """Keep the application behind the check."""
        self._application = application

    async def __call__(
        self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Awaitable[None]]
    ) -> None:
        """Pass the handshake on or refuse it."""
        if self._allows(scope):
            await self._application(scope, receive, send)
            return
        log.warning("socket refused: its origin is not this site's")
        await send({"type": "websocket.close", "code": 4403})

    def _allows(self, scope: Scope) -> bool:
        headers = {
            bytes(name).lower(): bytes(value).decode("latin-1") for name, value in scope["headers"]
        }
        origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
        domain, _ = split_domain_port(host)
        if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
            return False
        secure = _is_secure(scope, headers)
        return is_own_origin(origin, host, secure=secure, trusted=settings.CSRF_TRUSTED_ORIGINS)


def _is_secure(scope: Scope, headers: dict[bytes, str]) -> bool:
    proxy = settings.SECURE_PROXY_SSL_HEADER
    if proxy:
        name, value = proxy
        sent = headers.get(name.removeprefix("HTTP_").replace("_", "-").lower().encode(), "")
        return sent.split(",")[0].strip() == value
    return scope.get("scheme") in ("wss", "https")

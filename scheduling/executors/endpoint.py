"""Where a model server is and how to speak to it: its URLs, its key, and what may be shown of it."""

from dataclasses import dataclass, field

import httpx

from scheduling.executors.contract import ErrorClass
from scheduling.executors.faults import ServerFault


class BadEndpoint(ServerFault):
    """The address or the key cannot be used at all: nothing was sent."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's address, with or without the `/v1` at its end, and the key that belongs to it."""

    address: str
    api_key: str | None = field(default=None, repr=False)

    def url(self, path: str) -> httpx.URL:
        """The URL of an API path such as `models`. Raises `BadEndpoint` for a bad address."""
        base = self._parsed()
        root = base.path.rstrip("/")
        root = root if root.endswith("/v1") else f"{root}/v1"
        return base.copy_with(path=f"{root}/{path}")

    def headers(self) -> dict[str, str]:
        """The authorisation header, if there is a key. Raises `BadEndpoint` for an unusable key."""
        key = (self.api_key or "").strip()
        if not key:
            return {}
        if not (key.isascii() and key.isprintable()):
            message = (
                "the executor's API key holds characters that no header can carry; enter it anew"
            )
            raise BadEndpoint(ErrorClass.UNAUTHORIZED, message)
        return {"Authorization": f"Bearer {key}"}

    def shown(self) -> str:
        """The server as scheme, host and port, for messages."""
        url = self._parsed()
        return f"{url.scheme}://{url.netloc.decode('ascii')}"

    def _parsed(self) -> httpx.URL:
        try:
            url = httpx.URL(self.address.strip())
        except (httpx.InvalidURL, ValueError):
            url = httpx.URL("")
        host = url.host and "%" not in url.host
        if url.scheme not in ("http", "https") or not host or url.userinfo or url.query:
            message = (
                "the executor's endpoint must be an http or https URL with a host, and without a "
                "user, password or query; the key has a field of its own"
            )
            raise BadEndpoint(ErrorClass.INVALID_REQUEST, message)
        return url

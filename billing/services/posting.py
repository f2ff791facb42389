"""Posting signed bodies to addresses that strangers have named.

Theory. A name is resolved here and the connection goes to the very address that was checked, so a
name that changes its mind between the check and the call gains nothing. All addresses of a name
must be public. Redirects are not followed and proxies of the environment not used, the answer's
body is not read, and five seconds are the end of it all, names and slow headers included.
"""

import asyncio
import json
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx

from billing.core.webhooks import is_public, signature

TIMEOUT_S = 5.0
EVENT = "budget.alert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A body for an endpoint; `delivery` is the same each time that it is sent."""

    delivery: str
    url: str
    secret: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Whether it arrived, and in a few words what the other side did."""

    delivered: bool
    answer: str


class Refused(Exception):
    """The name leads to an address to which nothing is sent."""


def post_all(parcels: Sequence[Parcel], *, at: int, private_allowed: bool) -> list[Receipt]:
    """Post the parcels side by side; one receipt each, in the order given. `at` is epoch seconds.

    No fault of an endpoint raises.
    """
    return asyncio.run(_post_all(parcels, at, private_allowed))


async def _post_all(parcels: Sequence[Parcel], at: int, private_allowed: bool) -> list[Receipt]:  # noqa: FBT001 (a switch, named by its caller)
    posts = [_receipt(parcel, at, private_allowed) for parcel in parcels]
    return list(await asyncio.gather(*posts))


async def _receipt(parcel: Parcel, at: int, private_allowed: bool) -> Receipt:  # noqa: FBT001 (as above)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            status = await _post(parcel, at, private_allowed)
    except TimeoutError:
        return Receipt(delivered=False, answer=f"no answer within {TIMEOUT_S:g} s")
    except Refused:
        return Receipt(delivered=False, answer="not sent: it leads to a private address")
    except (OSError, UnicodeError, httpx.HTTPError, httpx.InvalidURL) as error:
        return Receipt(delivered=False, answer=f"no connection ({type(error).__name__})")
    return Receipt(delivered=200 <= status < 300, answer=f"HTTP {status}")


async def _post(parcel: Parcel, at: int, private_allowed: bool) -> int:  # noqa: FBT001 (as above)
    url = httpx.URL(parcel.url)
    address = await _address(url, private_allowed)
    body = json.dumps(parcel.body, sort_keys=True, separators=(",", ":")).encode()
    headers = {
        "Host": url.netloc.decode(),
        "Content-Type": "application/json",
        "User-Agent": "telemachus",
        "Telemachus-Event": EVENT,
        "Telemachus-Delivery": parcel.delivery,
        "Telemachus-Signature": signature(parcel.secret, at, body),
    }
    # A client for each: a kept connection would be found by its address, not by its name.
    async with httpx.AsyncClient(
        verify=_trust(), timeout=TIMEOUT_S, follow_redirects=False, trust_env=False
    ) as client:
        named = {"sni_hostname": url.raw_host.decode()}
        pinned = url.copy_with(host=address)
        async with client.stream(
            "POST", pinned, content=body, headers=headers, extensions=named
        ) as answer:
            return answer.status_code


async def _address(url: httpx.URL, private_allowed: bool) -> str:  # noqa: FBT001 (as above)
    """Resolve the host to an address that may be sent to."""
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(url.raw_host.decode(), port, type=socket.SOCK_STREAM)
    addresses = [str(place[4][0]) for place in found]
    if not private_allowed and not all(is_public(address) for address in addresses):
        raise Refused
    return addresses[0]


@cache
def _trust() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)

"""Webhooks without the network: what is signed, when to try again, where nothing may be sent.

Theory. A delivery is signed as HMAC-SHA256 over `<time>.<body>`, so that neither can be changed and
an old delivery cannot be sent again as a new one: a receiver refuses times long past. Tries are
spaced by doubling waits, halved at random so that many failures do not come back at one moment.
"""

import hashlib
import hmac
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

FIRST_WAIT_S = 10.0
LONGEST_WAIT_S = 3600.0
LONGEST_URL = 500
# Addresses that carry an IPv4 address in them and so may lead to a private one.
_CARRIERS = [ip_network("64:ff9b::/32"), ip_network("2002::/16"), ip_network("2001::/32")]


def signature(secret: str, at: int, body: bytes) -> str:
    """Return the header's value: `t=<epoch seconds>,v1=<hex of HMAC-SHA256 over t.body>`."""
    signed = f"{at}.".encode() + body
    return f"t={at},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def wait_s(tries: int, jitter: float) -> float:
    """Return how long to wait after so many tries (at least 1); `jitter` is in [0, 1)."""
    full = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(tries - 1, 20))
    return full / 2 * (1 + jitter)


def is_public(address: str) -> bool:
    """Say whether an IP address is one of the open internet, and not of this machine or network."""
    found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        elif found.is_site_local or any(found in network for network in _CARRIERS):
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def url_fault(url: str, *, private_allowed: bool) -> str:
    """Return what is wrong with an endpoint's address, or "".

    A name is resolved, and what it stands for checked, each time that something is sent.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "Is no address; give one such as https://example.org/hooks."
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        return f"Must be at most {LONGEST_URL} printable ASCII characters without spaces."
    if parts.scheme not in (("https", "http") if private_allowed else ("https",)) or not host:
        return "Must begin with https:// and name a host."
    if parts.username is not None or parts.password is not None or parts.fragment:
        return "Must hold no user, password or fragment; deliveries are signed instead."
    if not private_allowed and _is_private_literal(host):
        return "Must not lead into this machine or a private network."
    return ""


def _is_private_literal(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return not is_public(host)
    except ValueError:
        return False

"""Escalations of limits: which are in force, and what they make of the caps and rates.

Theory. A raise adds to whatever base its key has at the time, and to nothing where there is none;
raises of one key add up. What is in force is a function of the time, so nobody switches anything:
who keeps limits asks `changes_at` when the answer will next be another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from scheduling.core.policy.windows import Rate
from scheduling.core.types import LimitKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise:
    """So many more jobs at once, or requests or tokens a minute, for `key` between two times.

    The times are epoch seconds; the end is the first moment at which it holds no more.
    """

    id: str
    key: LimitKey
    starts_at: float
    ends_at: float
    owner: str = ""
    running: int = 0
    requests: int = 0
    tokens: int = 0


def in_force(raises: Iterable[Raise], now: float) -> tuple[Raise, ...]:
    """Return the raises that hold at `now`, in the order in which they came."""
    return tuple(one for one in raises if one.starts_at <= now < one.ends_at)


def changes_at(raises: Iterable[Raise], now: float) -> float:
    """Return when the next of them begins or ends after `now`; infinity where none does."""
    moments = (at for one in raises for at in (one.starts_at, one.ends_at))
    return min((at for at in moments if at > now), default=inf)


def caps_raised(base: Mapping[LimitKey, int], raised: Iterable[Raise]) -> dict[LimitKey, int]:
    """Return the caps with what is in force on top of them."""
    caps = dict(base)
    for one in raised:
        if one.key in caps:
            caps[one.key] += one.running
    return caps


def rates_raised(base: Mapping[LimitKey, Rate], raised: Iterable[Raise]) -> dict[LimitKey, Rate]:
    """Return the rates with what is in force on top of them."""
    rates = dict(base)
    for one in raised:
        if one.key in rates:
            rates[one.key] = rates[one.key].plus(requests=one.requests, tokens=one.tokens)
    return rates


def cap_needs(one: Raise, base: Mapping[LimitKey, int], running: int) -> bool:
    """Tell whether a job needed the raise to join so many `running` ones of the key."""
    return bool(one.running) and one.key in base and running >= base[one.key]


def rate_needs(
    one: Raise, base: Mapping[LimitKey, Rate], used: tuple[int, int], tokens: int
) -> bool:
    """Tell whether a job of `tokens` needed the raise, given the (requests, tokens) before it."""
    rate = base.get(one.key, Rate())
    asked = Rate(
        requests=rate.requests if one.requests else None,
        tokens=rate.tokens if one.tokens else None,
    )
    return not asked.fits(*used, tokens)

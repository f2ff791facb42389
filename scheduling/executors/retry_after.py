"""Reading the Retry-After header (RFC 9110: seconds or an HTTP date), and its cousin in ms.

A server can write anything there. What is no usable wait gives None, so that the caller falls back
on its own backoff; what is absurdly long is cut to a day, for no header may park a job for years.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_S = 86_400.0


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait from `now`, in [0, a day]; None if the headers say nothing usable."""
    thousandths = _seconds(headers.get("retry-after-ms", ""))
    if thousandths is not None:
        return min(thousandths / 1_000, MAX_RETRY_AFTER_S)
    value = headers.get("retry-after", "").strip()
    seconds = _seconds(value)
    if seconds is None:
        seconds = _until_date(value, now)
    return None if seconds is None else min(seconds, MAX_RETRY_AFTER_S)


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until_date(value: str, now: datetime) -> float | None:
    """Seconds until an HTTP date; a date that has passed means now."""
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())

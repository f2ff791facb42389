"""Figures as pages show them: rounded for reading, with the value that the API tells beside them.

Each is a `data` element (a moment is a `time` element, which the page's switch turns into the local
zone). None, where there is no such figure, is a dash.
"""

from datetime import UTC, datetime
from decimal import Decimal

from django.utils.html import format_html
from django.utils.safestring import SafeString

NONE = SafeString("&ndash;")
_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def number(value: float | None) -> SafeString:
    """Return a count or a mean of counts, to one decimal where it is small."""
    if value is None:
        return NONE
    places = 0 if isinstance(value, int) or abs(value) >= 100 else 1
    text = f"{value:,.{places}f}"
    return _data(value, text.removesuffix(".0"))


def amount(value: Decimal) -> SafeString:
    """Return an amount with all of its digits: nothing of it is rounded away."""
    text = f"{value:,f}"
    shown = text.rstrip("0").rstrip(".") if "." in text else text
    return _data(shown.replace(",", ""), shown)


def span(seconds: float | None, none: str = "") -> SafeString:
    """Return seconds in the two largest units that they fill; `none` says what None means."""
    if seconds is None:
        return SafeString(none) if none else NONE
    return _data(round(seconds, 3), span_words(seconds))


def signed(seconds: float) -> SafeString:
    """Return a span that has a sign."""
    sign = "" if not round(seconds, 1) else "\N{MINUS SIGN}" if seconds < 0 else "+"
    return _data(round(seconds, 3), sign + span_words(abs(seconds)))


def share(part: float) -> SafeString:
    """Return a part of 1 in hundredths."""
    return _data(part, f"{100 * part:.1f}".removesuffix(".0") + " %")


def moment(at: float | datetime | None, form: str = "") -> SafeString:
    """Return a time of epoch seconds or an aware one; `form` "clock" leaves the day out."""
    if at is None:
        return NONE
    when = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    text = f"{when.astimezone(UTC):%H:%M}" if form else f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return format_html(
        '<time data-at="{}" data-form="{}" datetime="{}">{}</time>',
        f"{when.timestamp():.3f}",
        form,
        when.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        text,
    )


def span_words(seconds: float) -> str:
    """Return seconds in the two largest units that they fill, below ten to a tenth."""
    whole = round(seconds)
    for size, unit, below, small in _UNITS:
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}{f' {rest:02d} {small}' if rest else ''}"
    return f"{whole} s" if seconds >= 10 else f"{seconds:.1f}".removesuffix(".0") + " s"


def _data(exact: object, words: str) -> SafeString:
    return format_html('<data value="{}">{}</data>', exact, words)

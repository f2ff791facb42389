"""From what a server said to an error class and one short line that is safe to show.

A status code is only half of the truth: gateways wrap rate limits in a 200, and a body's own code
may be a number or a word. The words are looked at first where the status says nothing.
"""

import re
from collections.abc import Iterable
from typing import Any

from scheduling.executors.contract import ErrorClass

MAX_MESSAGE_CHARS = 300

_LIMIT_WORDS = re.compile(r"rate.?limit|too.?many.?requests|quota|throttl", re.IGNORECASE)
_KEY_SHAPES = re.compile(
    r"(?i)\b(bearer\s+|(?:sk|pk|rk|key|hf|gsk|xai)[-_])[\w.~+/=*-]{6,}|//[^/\s@]+@"
)
_BY_STATUS = {
    401: ErrorClass.UNAUTHORIZED,
    403: ErrorClass.UNAUTHORIZED,
    408: ErrorClass.TIMEOUT,
    409: ErrorClass.PROVIDER_ERROR,
    425: ErrorClass.PROVIDER_ERROR,
    429: ErrorClass.RATE_LIMITED,
    504: ErrorClass.TIMEOUT,
}


class ServerFault(Exception):
    """The server answered, but not with a usable answer."""

    def __init__(
        self, error_class: ErrorClass, message: str, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.message = message
        self.retry_after_s = retry_after_s


def class_of_status(status: int) -> ErrorClass:
    """The class of an HTTP status that is not 200."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if 400 <= status < 500:
        return ErrorClass.INVALID_REQUEST
    return ErrorClass.PROVIDER_ERROR if status >= 500 else ErrorClass.INVALID_RESPONSE


def fault_in(body: dict[str, Any], event_name: str = "") -> ServerFault | None:
    """The error that a body with a good status carries, or None if it carries none.

    Known shapes: an `error` object or text, an object of type `error`, an event named `error`, and
    a bare code and message where the choices should be.
    """
    error = body.get("error")
    named = event_name == "error" or "error" in (body.get("object"), body.get("type"))
    bare = not body.get("choices") and any(
        isinstance(body.get(k), str) for k in ("message", "code")
    )
    if not error and not named and not bare:
        return None
    detail = error if isinstance(error, dict) else body
    message = error if isinstance(error, str) else _message(detail)
    return ServerFault(_class_of(detail, message), message or "the server reported an error")


def message_in(body: object) -> str:
    """The message of an error body of any known shape, "" if there is none."""
    if not isinstance(body, dict):
        return ""
    error = body.get("error")
    if isinstance(error, str):
        return error
    return _message(error if isinstance(error, dict) else body)


def one_line(message: str, secrets: Iterable[str | None] = ()) -> str:
    """A message cut to one short printable line, with keys and passwords struck out."""
    text = message
    for secret in filter(None, secrets):
        text = text.replace(secret, "[secret]")
    text = _KEY_SHAPES.sub(lambda found: "//[secret]@" if "@" in found[0] else "[secret]", text)
    text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return text if len(text) <= MAX_MESSAGE_CHARS else f"{text[: MAX_MESSAGE_CHARS - 1]}…"


def _message(detail: dict[str, Any]) -> str:
    for key in ("message", "detail", "error", "msg", "code", "type"):
        value = detail.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def _class_of(detail: dict[str, Any], message: str) -> ErrorClass:
    code = detail.get("code", detail.get("status"))
    if isinstance(code, int) and 400 <= code < 600:
        return class_of_status(code)
    if isinstance(code, str) and code.isdecimal() and 400 <= int(code[:4]) < 600:
        return class_of_status(int(code))
    words = " ".join([str(code), str(detail.get("type")), message])
    return ErrorClass.RATE_LIMITED if _LIMIT_WORDS.search(words) else ErrorClass.PROVIDER_ERROR

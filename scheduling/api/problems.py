"""Errors as problem+json (RFC 9457): a code, a sentence, what to do, and the wrong fields.

Every error under /api/ ends here. Nothing unforeseen reaches the client bare: it gets an incident
number, and the log gets the traceback under that number.

The framework's settings name this module, so it must not import the framework's views (they read
those settings while they are imported).
"""

import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import psycopg_pool
import redis
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.services.drafts import FieldError
from tenants.controls import ControlRefused
from tenants.rbac import Forbidden, Hidden

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:telemachus:problem:"
RETRY_SERVICE_S = 5
NOT_FOUND = "There is no such thing, or you may not see it."

Body: TypeAlias = dict[str, Any]


class Problem(Exception):
    """An error to be told to the client."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: Iterable[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep what is told; `extra` are further members of the body."""
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    def body(self, instance: str) -> Body:
        """Return the body for the request of that path."""
        body: Body = {
            "type": TYPE_PREFIX + self.code,
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "instance": instance,
        }
        if self.errors:
            body["errors"] = [{"field": e.field, "sentence": e.sentence} for e in self.errors]
        return body | self.extra


TITLES = {
    400: "The request cannot be understood",
    401: "Not authenticated",
    403: "Not permitted",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    409: "Conflict",
    411: "Length required",
    413: "Too large",
    415: "Unsupported content type",
    422: "Refused",
    429: "Try again later",
    500: "Something went wrong here",
    503: "Service unavailable",
}


def invalid(*errors: FieldError, status: int = 400) -> Problem:
    """Return the problem of wrong fields; the first sentence is told in the detail as well."""
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Problem(status, "invalid", f"{first.field}: {first.sentence}{more}", errors=errors)


def problem_response(exc: Exception, context: Mapping[str, Any]) -> Response:
    """Return the response of any exception (the framework's EXCEPTION_HANDLER)."""
    return respond(_problem_of(exc), context["request"])


def respond(problem: Problem, request: Request) -> Response:
    """Return a problem as a response."""
    return Response(
        problem.body(request.path),
        status=problem.status,
        headers=problem.headers,
        content_type=CONTENT_TYPE,
    )


def _problem_of(exc: Exception) -> Problem:
    if isinstance(exc, Problem):
        return exc
    if isinstance(exc, Hidden | Http404 | exceptions.NotFound):
        detail = str(exc) if isinstance(exc, Hidden) else NOT_FOUND
        return Problem(404, "not_found", detail)
    if isinstance(exc, Forbidden | PermissionDenied):
        return Problem(403, "forbidden", str(exc) or "You may not do this.")
    if isinstance(exc, ControlRefused):
        return invalid(FieldError(field=exc.field, sentence=exc.sentence))
    if isinstance(exc, exceptions.APIException):
        return _of_framework(exc)
    return _unforeseen(exc)


def _of_framework(exc: exceptions.APIException) -> Problem:
    headers: dict[str, str] = {}
    challenge = getattr(exc, "auth_header", None)
    if challenge:
        headers["WWW-Authenticate"] = challenge
    code = _CODES.get(exc.status_code, "error")
    return Problem(exc.status_code, code, str(exc.detail), headers=headers)


_CODES = {
    400: "malformed",
    401: "unauthenticated",
    403: "forbidden",
    405: "method_not_allowed",
    406: "not_acceptable",
    415: "unsupported_content_type",
}


def _unforeseen(exc: Exception) -> Problem:
    if isinstance(exc, OperationalError | InterfaceError | psycopg_pool.PoolTimeout):
        log.error("database unavailable: %s", type(exc).__name__)
        return unavailable("The database does not answer")
    if isinstance(exc, redis.RedisError):
        log.error("broker unavailable: %s", type(exc).__name__)
        return unavailable("The order of the queue cannot be read")
    incident = secrets.token_hex(6)
    log.error("incident %s", incident, exc_info=exc)
    detail = f"The fault is ours; it is logged as incident {incident}. Name it to an operator."
    return Problem(500, "internal", detail, extra={"incident": incident})


def unavailable(what: str) -> Problem:
    """Return the problem of a part that does not answer for the moment."""
    return Problem(
        503,
        "unavailable",
        f"{what} for the moment; nothing was changed. Try again in {RETRY_SERVICE_S} seconds.",
        headers={"Retry-After": str(RETRY_SERVICE_S)},
    )

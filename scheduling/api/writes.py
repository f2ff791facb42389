"""Writes and their Idempotency-Key: one answer a key, replayed on a repeat."""

import uuid
from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.problems import CONTENT_TYPE, Problem, invalid
from scheduling.services.drafts import FieldError
from scheduling.services.idempotency import (
    Answer,
    KeyInProgress,
    KeyReused,
    answer_once,
    fingerprint,
)

HEADER = "Idempotency-Key"
LONGEST_KEY = 255


def body_of(request: Request) -> dict[str, Any]:
    """Return the object that was sent; an empty body is an empty object."""
    return dict(request.data)


def write(request: Request, workspace_id: uuid.UUID, act: Callable[[], Answer]) -> Response:
    """Do a write of a workspace once for its key and answer it; without a key, do it."""
    asked = fingerprint(request.method, request.path, body_of(request))
    key = _key(request)
    try:
        answer, replayed = answer_once(workspace_id=workspace_id, key=key, asked=asked, act=act)
    except KeyReused:
        detail = f"This {HEADER} was used for another request before; use a new one."
        raise Problem(409, "idempotency_key_reused", detail) from None
    except KeyInProgress:
        detail = "The request with this key is still in progress; ask again in a moment."
        raise Problem(
            409, "idempotency_in_progress", detail, headers={"Retry-After": "1"}
        ) from None
    response = Response(answer.body, status=answer.status, headers=dict(answer.headers))
    if answer.status >= 400:
        response.content_type = CONTENT_TYPE
    if replayed:
        response["Idempotent-Replayed"] = "true"
    return response


def problem_answer(problem: Problem, request: Request, *, keep: bool = True) -> Answer:
    """Return a problem as the answer of a write that stored something."""
    return Answer(
        status=problem.status, body=problem.body(request.path), headers=problem.headers, keep=keep
    )


def _key(request: Request) -> str:
    key = request.headers.get(HEADER, "")
    if len(key) > LONGEST_KEY or not (key.isascii() and key.isprintable()):
        sentence = f"Must be at most {LONGEST_KEY} printable ASCII characters."
        raise invalid(FieldError(field=HEADER, sentence=sentence))
    if HEADER in request.headers and not key.strip():
        raise invalid(FieldError(field=HEADER, sentence="Is empty; send a key, or no header."))
    return key

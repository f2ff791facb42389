"""The reviews page: what waits for a verdict of who looks, the oldest first.

The page is whole without JavaScript, to read. Its script judges over the API and asks for the list
again every few seconds; a list that is as it was is answered with nothing.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduling.cockpit.navigation import navigation
from scheduling.models import Job
from scheduling.selectors.reviews import Standing, may_review, reviews_list, standing_of
from scheduling.services.reviews import LONGEST_NOTE
from tenants.rbac import principal_of_user

SHOWN = 50
SHORT = 600
"""A result of so many characters is shown whole, a longer one folded behind its beginning."""
LONGEST = 20_000
"""So many characters of a text are shown; the API has all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text to be read: its beginning, and the rest, which is folded away."""

    begins: str
    rest: str = ""
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One review as the page shows it; `own`: who looks has submitted it; `mine`: has taken it."""

    job: Job
    standing: Standing
    asked: str
    result: Passage
    own: bool
    mine: bool

    @property
    def late(self) -> bool:
        """Whether its deadline, which bound its work, has passed by now."""
        return self.job.deadline is not None and self.job.deadline <= timezone.now()


@require_safe
@never_cache
@login_required
def reviews(request: HttpRequest) -> HttpResponse:
    """Show the list; with `?known=` of a list that is as it was, answer 204."""
    principal = principal_of_user(request.user)
    if not may_review(principal):
        raise PermissionDenied
    jobs = list(reviews_list(principal)[:SHOWN])
    menu = navigation(principal)
    stamp = _stamp(jobs, menu["reviews"])
    if request.GET.get("known") == stamp:
        return HttpResponse(status=204)
    context = menu | {
        "rows": [_row(job, principal.name) for job in jobs],
        "stamp": stamp,
        "longest_note": LONGEST_NOTE,
    }
    return render(request, "reviews.html", context)


def passage(text: str) -> Passage:
    """Return a text as the page shows it."""
    shown = text[:LONGEST]
    if len(shown) <= SHORT:
        return Passage(begins=shown)
    fold = shown.rfind("\n", SHORT // 2, SHORT)
    fold = SHORT if fold < 0 else fold + 1
    return Passage(begins=shown[:fold], rest=shown[fold:], is_cut=len(text) > LONGEST)


def in_words(value: object) -> str:
    """Return what a person reads of a payload or a result: its text, if that is all there is."""
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        if len(value) == 1:
            return str(value["text"])
        others = {name: one for name, one in value.items() if name != "text"}
        return f"{value['text']}\n\n{_plain(others)}"
    return _plain(value)


def _plain(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _row(job: Job, who: str) -> Row:
    standing = standing_of(job)
    return Row(
        job=job,
        standing=standing,
        asked=in_words(job.payload)[:LONGEST],
        result=passage(in_words(job.result)),
        own=job.submitted_by == who,
        mine=standing.by == who,
    )


def _stamp(jobs: Sequence[Job], waiting: int) -> str:
    """Return a text that changes with what the list shows."""
    told: list[Any] = [waiting]
    for job in jobs:
        standing = standing_of(job)
        told.append((job.seq, standing.state, standing.by, _text(standing.until)))
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def _text(at: datetime | None) -> str:
    return "" if at is None else at.isoformat()

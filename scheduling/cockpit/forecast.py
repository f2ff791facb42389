"""The forecast page: a pool's next day, what it rests on, and how good the ETAs were.

It tells what /api/v1/forecast and /api/v1/forecast/honesty tell the same person, and is whole
without JavaScript.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import redis
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduling.cockpit.forecast_parts import shown, shown_scores
from scheduling.cockpit.navigation import navigation
from scheduling.models import PolicyVersion, Pool
from scheduling.selectors.foresight.honesty import SPANS
from scheduling.selectors.foresight.outlook import Asked
from scheduling.selectors.foresight.told import LONGEST_S, TARGETS, foretold, scores_told
from tenants.rbac import Principal, principal_of_user

GROUPINGS: Mapping[str, str] = {
    "workflow": "Workflow",
    "kind": "Capability: kind of job",
    "model": "Capability: model",
    "label": "Capability: label",
}
WORDS: Mapping[str, str] = {
    "target_wait_s": "Target wait, seconds",
    "outage_s": "Outage to recover from, seconds",
    "recover_s": "Recovered within, seconds",
}
NO_POOL = (
    "There is no pool yet. Make one in the admin or with manage.py; its forecast appears here."
)
NO_POLICY = "No scheduling policy is published, so nothing can be foretold. Publish one."
NO_ORDER = (
    "The order of the queue cannot be read for the moment. Load the page again in a few seconds."
)


class BadQuestion(Exception):
    """The question cannot be read; the message says what to write instead."""


class CannotTell(Exception):
    """There is no answer now; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a pool, and how far back its ETAs are scored."""

    asked: Asked
    span: str = "day"


@require_safe
@never_cache
@login_required
def forecast(request: HttpRequest) -> HttpResponse:
    """Show the forecast that the address asks for."""
    principal = principal_of_user(request.user)
    if not principal.is_operator and not principal.grants:
        raise PermissionDenied
    pools = list(Pool.objects.values_list("slug", flat=True))
    slug = request.GET.get("pool", pools[0] if pools else "")
    if pools and slug not in pools:
        raise Http404
    question, fault, status = Question(asked=Asked()), "", 200
    told: dict[str, Any] = {}
    try:
        question = _question(request.GET)
        told = _told(principal, slug, question)
    except BadQuestion as error:
        fault, status = str(error), 400
    except CannotTell as error:
        fault, status = str(error), 503
    context = {"pools": pools, "pool": slug, "fault": fault, "told": told, "no_pool": NO_POOL}
    context |= _form(question, slug) | navigation(principal)
    return render(request, "forecast.html", context, status=status)


def _told(principal: Principal, slug: str, question: Question) -> dict[str, Any]:
    """Return what the page shows; nothing where there is no pool."""
    pool = Pool.objects.filter(slug=slug).first()
    if pool is None:
        return {}
    now = timezone.now()
    try:
        found = foretold(principal, pool, question.asked, now)
    except PolicyVersion.DoesNotExist as error:
        raise CannotTell(NO_POLICY) from error
    except redis.RedisError as error:
        raise CannotTell(NO_ORDER) from error
    scores = scores_told(principal, pool, question.span, now)
    return shown(found) | {"scores": shown_scores(scores, found.tenants)}


def _question(query: QueryDict) -> Question:
    by = _one_of(query, "by", GROUPINGS, "Group by", "workflow")
    span = _one_of(query, "span", SPANS, "ETAs are scored over the last", "day")
    target, outage, recover = (_seconds(query, name, getattr(Asked(), name)) for name in TARGETS)
    asked = Asked(by=by, target_wait_s=target, outage_s=outage, recover_s=recover)
    return Question(asked=asked, span=span)


def _one_of(query: QueryDict, name: str, known: Mapping[str, Any], words: str, default: str) -> str:
    given = query.get(name, default)
    if given not in known:
        message = f"{words} one of: {', '.join(known)}."
        raise BadQuestion(message)
    return given


def _seconds(query: QueryDict, name: str, default: float) -> float:
    text = query.get(name)
    if text is None:
        return default
    value = int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else -1
    if not 1 <= value <= LONGEST_S:
        message = f"{WORDS[name]}: write a whole number from 1 to {LONGEST_S:,}."
        raise BadQuestion(message)
    return float(value)


def _form(question: Question, pool: str) -> dict[str, Any]:
    """Return what the form shows, and the addresses at which the API tells the same."""
    asked = question.asked
    targets = {name: int(getattr(asked, name)) for name in TARGETS}
    forecast_query = urlencode({"pool": pool, "by": asked.by, **targets})
    return {
        "by": asked.by,
        "by_words": GROUPINGS[asked.by].removeprefix("Capability: ").capitalize(),
        "groupings": GROUPINGS.items(),
        "span": question.span,
        "spans": [(name, name.capitalize()) for name in SPANS],
        "targets": [(name, WORDS[name], value) for name, value in targets.items()],
        "longest_s": LONGEST_S,
        "api_forecast": f"/api/v1/forecast?{forecast_query}",
        "api_honesty": f"/api/v1/forecast/honesty?{urlencode({'pool': pool, 'span': question.span})}",
    }

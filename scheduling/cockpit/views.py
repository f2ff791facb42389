"""The board's page: the frame that the live modules fill, readable without them as well."""

import time
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduling.cockpit.board import Board, Viewer
from scheduling.cockpit.levers import classes_in_order, levers_of
from scheduling.cockpit.live import read_model
from scheduling.cockpit.navigation import navigation
from scheduling.cockpit.topics import Ask, Source, executors, order, shares, summary
from scheduling.cockpit.viewers import viewer_of_user
from scheduling.cockpit.window import View
from scheduling.core.reasons import REASON_SENTENCES
from scheduling.selectors.reasons import reason_sentence
from tenants.rbac import principal_of_user

PLAIN_ROWS = 50


@require_safe
@never_cache
@login_required
def board(request: HttpRequest) -> HttpResponse:
    """Show the board of a pool (`?pool=`), the first one by default."""
    viewer = viewer_of_user(request.user)
    if viewer is None or viewer.tenants == frozenset():
        return _elsewhere(viewer)
    read_model.load()
    context: dict[str, Any] = {
        "reasons": {reason.value: sentence for reason, sentence in REASON_SENTENCES.items()},
        "pools": [one.header.slug for one in read_model.boards()],
        "all_seen": viewer.tenants is None,
        "levers": levers_of(request.user),
        "classes": classes_in_order(),
        **navigation(principal_of_user(request.user)),
        "total": 0,
    }
    shown = read_model.board(request.GET.get("pool", "")[:63])
    if shown is not None:
        context |= _plain(shown, viewer)
    return render(request, "board.html", context)


def _elsewhere(viewer: Viewer | None) -> HttpResponse:
    """Send one who sees costs only to the costs; refuse one who sees nothing."""
    if viewer is not None and viewer.costs != frozenset():
        return redirect("costs")
    raise PermissionDenied


def _plain(shown: Board, viewer: Viewer) -> dict[str, Any]:
    """Return what the page shows before, or without, the live modules."""
    source = Source(board=shown)
    window = order(source, viewer, Ask(topic="order", n=PLAIN_ROWS))
    facts = {row["id"]: row["value"] for row in _dicts(summary(source, viewer, Ask(topic="s")))}
    return {
        "pool": shown.header.slug,
        "policy": shown.header.policy,
        "at": _moment(shown.header.at),
        "sum": facts,
        "clear": _moment(facts.get("clear")),
        "total": window.total,
        "rows": _order_rows(window),
        "shares": _dicts(shares(source, viewer, Ask(topic="shares"))),
        "executors": _dicts(executors(source, viewer, Ask(topic="executors"))),
    }


def _dicts(view: View) -> list[dict[str, Any]]:
    return [dict(zip(view.cols, row, strict=True)) for row in view.rows]


def _order_rows(window: View) -> list[dict[str, Any]]:
    now = time.time()
    rows = _dicts(window)
    for index, row in enumerate(rows):
        implied = index + 1 if row["can"] else 0
        row["place"] = implied if window.places is None else window.places[index]
        row["waits"] = _span(now - row["since"])
        row["sentence"] = reason_sentence(row["why"])
        row["start"], row["end"] = _moment(row["start"]), _moment(row["end"])
    return rows


def _moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def _span(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} m"
    return f"{minutes} m" if minutes else f"{rest} s"

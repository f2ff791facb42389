"""What each topic of the socket shows, as rows with a key, from one board for one viewer.

Everything that leaves the process for a browser is made here, after the viewer's tenants have been
applied: other tenants appear in totals only. Names go out as words, never as numbers of the
header's lists, since those numbers would tell how many tenants there are.
"""

import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

import numpy as np

from scheduling.cockpit import filters
from scheduling.cockpit.board import Board, Places, Viewer
from scheduling.cockpit.window import Row, View
from scheduling.snapshot import TenantRow

WINDOW_MOST = 200
LANE_BARS_MOST = 150
SHARES_MOST = 200
ID_LENGTH, ID_HYPHENS = 36, 4
TIMES = frozenset({"since", "start", "end", "low", "high", "clear"})
ORDER_COLS = (
    "id", "ten", "ws", "wf", "cls", "cost", "since", "why", "turn",
    "start", "end", "low", "high", "approx", "can",
)  # fmt: skip
LANE_COLS = ("id", "ten", "wf", "cost", "start", "end", "run", "ex", "late")
SHARE_COLS = (
    "id", "name", "weight", "held", "waiting", "running", "in_use", "planned", "actual", "served",
    "clear",
)  # fmt: skip
EXECUTOR_COLS = (
    "id", "kind", "slots", "configured", "in_use", "health", "circuit", "enabled", "draining",
    "models",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a subscription wants: a topic, and which part of it."""

    topic: str
    pool: str = ""
    tenant: str = "*"
    words: tuple[filters.Word, ...] = ()
    off: int = 0
    n: int = 80
    span_s: int = 5400


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The newest of everything: the board, the money spent today, the depth of the last hour."""

    board: Board
    depth: tuple[tuple[int, int], ...] = ()
    spend: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Row, ...] = ()
    events_seq: int = 0


def _view(board: Board, cols: tuple[str, ...], rows: list[Row], **more: Any) -> View:  # noqa: ANN401 - passed on to View, which is typed
    header = board.header
    return View(
        cols=cols,
        rows=tuple(rows),
        epoch=header.epoch,
        seq=more.pop("seq", header.seq),
        at=header.at,
        policy=header.policy,
        total=more.pop("total", len(rows)),
        times=TIMES,
        **more,
    )


def order(source: Source, viewer: Viewer, ask: Ask) -> View:
    """Return the window of the fair order."""
    board = source.board
    chosen = filters.select(board, viewer, ask.tenant, ask.words)
    total = len(board.rows) if chosen is None else len(chosen)
    off = max(0, min(ask.off, total - 1))
    stop = min(off + ask.n, total)
    places = np.arange(off, stop) if chosen is None else chosen[off:stop]
    rows = _order_rows(board, places)
    true = None if chosen is None else _true_places(board, places)
    return _view(board, ORDER_COLS, rows, total=total, off=off, places=true)


def _true_places(board: Board, places: Places) -> tuple[int, ...]:
    startable = board.rows["startable"][places]
    return tuple(int(place) for place in np.where(startable, places + 1, 0))


def _order_rows(board: Board, places: Places) -> list[Row]:
    header = board.header
    return [
        (
            str(uuid.UUID(bytes=bytes(job))),
            header.tenants[tenant].slug,
            _workspace_name(header.workspaces[workspace]),
            header.workflows[workflow][1],
            header.classes[job_class],
            cost,
            _second(since),
            header.reasons[reason],
            turn,
            *(_second(at) for at in (start, end, low, high)),
            approximate,
            startable,
        )
        for (
            job, tenant, workspace, workflow, job_class, reason, startable, approximate, cost, turn,
            since, start, end, low, high,
        ) in board.rows[places].tolist()
    ]  # fmt: skip


def _workspace_name(text: str) -> str:
    """Return the slug of `tenant/workspace`; a bare id says nothing to a person and is left out."""
    name = text.rpartition("/")[2]
    return "" if len(name) == ID_LENGTH and name.count("-") == ID_HYPHENS else name


def _second(at: float | None) -> int | None:
    return None if at is None or math.isnan(at) else round(at)


def lanes(source: Source, viewer: Viewer, ask: Ask) -> View:
    """Return the bars: what runs now, then what starts within the span, in the order's order."""
    board = source.board
    rows = [*_running(board, viewer), *_planned(board, viewer, ask.span_s)]
    return _view(board, LANE_COLS, rows[:LANE_BARS_MOST], total=len(rows))


def _running(board: Board, viewer: Viewer) -> list[Row]:
    header = board.header
    names = {name: row.slug for row in board.executors_of(viewer) for name in (row.id, row.slug)}
    return [
        (
            row.job,
            header.tenants[row.tenant].slug,
            header.workflows[row.workflow][1],
            row.cost,
            _second(row.started_at),
            _second(row.finish),
            True,
            names.get(row.executor, ""),
            row.overdue,
        )
        for row in sorted(board.running_of(viewer), key=lambda row: (row.started_at, row.job))
    ]


def _planned(board: Board, viewer: Viewer, span_s: int) -> list[Row]:
    chosen = filters.select(board, viewer, "*", ())
    places = np.arange(len(board.rows)) if chosen is None else chosen
    places = places[: 2 * LANE_BARS_MOST]
    places = places[board.rows["startable"][places]][:LANE_BARS_MOST]
    horizon = board.header.at + span_s
    return [
        (row[0], row[1], row[3], row[5], row[9], row[10], False, "", False)
        for row in _order_rows(board, places)
        if row[9] is not None and row[9] <= horizon
    ]


def shares(source: Source, viewer: Viewer, ask: Ask) -> View:
    """Return the viewer's tenants: planned part against the part in use, and the way ahead.

    Of very many, those with the most work are shown, by slug like all others.
    """
    seen = source.board.tenants_of(viewer)
    most = {row.id for row in nlargest(SHARES_MOST, seen, key=_work)}
    rows: list[Row] = [
        (
            row.slug, row.name, row.weight, row.held, row.waiting, row.running, row.in_use,
            round(row.planned, 3), round(row.actual, 3), row.served, _second(row.clear_at),
        )
        for row in seen
        if row.id in most
    ]  # fmt: skip
    return _view(source.board, SHARE_COLS, rows, total=len(seen))


def _work(row: TenantRow) -> int:
    return row.waiting + row.running


def executors(source: Source, viewer: Viewer, ask: Ask) -> View:
    """Return the executors that the viewer may use."""
    rows: list[Row] = [
        (
            row.slug, row.kind, row.slots, row.configured_slots, row.in_use, row.health,
            row.circuit, row.enabled, row.draining, row.models[:20],
        )
        for row in sorted(source.board.executors_of(viewer), key=lambda row: row.slug)
    ]  # fmt: skip
    return _view(source.board, EXECUTOR_COLS, rows)


def summary(source: Source, viewer: Viewer, ask: Ask) -> View:
    """Return the key figures as (name, value) rows; counts and times of others, never names."""
    header = source.board.header
    seen = source.board.tenants_of(viewer)
    facts: dict[str, object] = {
        "pool": header.slug,
        "budget": header.budget,
        "reserve": header.reserve,
        "in_use": header.in_use,
        "own_use": sum(row.in_use for row in seen),
        "waiting": sum(row.waiting for row in seen),
        "waiting_all": header.total,
        "startable": header.startable,
        "running": sum(row.running for row in seen),
        "control": header.control,
        "oldest": _oldest(source.board, viewer),
    }
    facts |= _clear_times(source.board, viewer) | dict(source.spend)
    rows: list[Row] = [(name, value) for name, value in facts.items()]
    return _view(source.board, ("id", "value"), rows)


def _clear_times(board: Board, viewer: Viewer) -> dict[str, object]:
    header = board.header
    if viewer.tenants is None:
        return {
            "clear": _second(header.clear_at),
            "clear_low": _second(header.clear_low),
            "clear_high": _second(header.clear_high),
            "eta_error": header.eta_mean_error_s and round(header.eta_mean_error_s, 1),
            "eta_hits": header.eta_hit_rate and round(header.eta_hit_rate, 3),
        }
    times = [row.clear_at for row in board.tenants_of(viewer) if row.clear_at is not None]
    return {"clear": _second(max(times)) if times else None}


def _oldest(board: Board, viewer: Viewer) -> int | None:
    chosen = filters.select(board, viewer, "*", ())
    since = board.rows["submitted_at"] if chosen is None else board.rows["submitted_at"][chosen]
    return _second(float(since.min())) if len(since) else None


def depth(source: Source, viewer: Viewer, ask: Ask) -> View:
    """Return how many jobs waited in the last hour, oldest first."""
    return _view(source.board, ("id", "waiting"), [tuple(pair) for pair in source.depth])


def events(source: Source, viewer: Viewer, ask: Ask) -> View:
    """Return the newest events of the viewer's tenants, newest first."""
    return _view(
        source.board,
        ("id", "at", "ten", "job", "event", "why", "note"),
        list(source.events[: ask.n]),
        seq=source.events_seq,
    )


TOPICS: Mapping[str, Callable[[Source, Viewer, Ask], View]] = {
    "order": order,
    "lanes": lanes,
    "shares": shares,
    "executors": executors,
    "summary": summary,
    "depth": depth,
    "events": events,
}

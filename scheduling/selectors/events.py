"""The newest job events, as the boards and a person's event list show them."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation

from django.db.models import Q

from scheduling.models import JobEvent
from tenants.rbac import Permission, Principal, reach

NOTE_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """One event with the names that a line of text needs; `note` is short and free of content."""

    id: int
    at: datetime
    tenant: uuid.UUID
    tenant_slug: str
    workspace: uuid.UUID
    job: uuid.UUID
    event: str
    reason: str
    note: str


def events_newest(principal: Principal, limit: int = 60) -> list[EventLine]:
    """Return the newest events that the principal may see, newest first."""
    seen = reach(principal, Permission.VIEW)
    rows = Q()
    if not seen.everywhere:
        rows = Q(tenant__in=seen.tenants) | Q(job__workspace__in=seen.workspaces)
    return _lines(rows, limit)


def events_after(
    event_id: int, limit: int = 500, ignoring: Collection[int] = ()
) -> list[EventLine]:
    """Return all tenants' newest events with a higher number, newest first, without `ignoring`."""
    return _lines(Q(id__gt=event_id) & ~Q(id__in=ignoring), limit)


def _lines(rows: Q, limit: int) -> list[EventLine]:
    newest = JobEvent.objects.filter(rows).select_related("tenant", "job").order_by("-id")
    return [
        EventLine(
            id=event.pk,
            at=event.at,
            tenant=event.tenant_id,
            tenant_slug=event.tenant.slug,
            workspace=event.job.workspace_id,
            job=event.job_id,
            event=event.event,
            reason=event.reason,
            note=_note(event.data),
        )
        for event in newest.only(
            "at",
            "tenant_id",
            "tenant__slug",
            "job__workspace_id",
            "job_id",
            "event",
            "reason",
            "data",
        )[:limit]
    ]


def _note(data: object) -> str:
    """Return the facts of an event that are safe and short: who, where, how much, for which class."""
    if not isinstance(data, dict):
        return ""
    told = {
        "on {}": data.get("executor"),
        "step {}": data.get("step") if isinstance(data.get("step"), int) else None,
        "${}": _money(data.get("spend")),
        "by {}": data.get("by"),
        "for {}": data.get("for_class"),
    }
    return ", ".join(words.format(value)[:NOTE_LENGTH] for words, value in told.items() if value)


def _money(text: object) -> str:
    """Return an amount without the zeros that say nothing, an empty text for none."""
    try:
        amount = Decimal(text) if isinstance(text, str) else Decimal(0)
    except InvalidOperation:
        return ""
    return f"{amount.normalize():f}" if amount else ""

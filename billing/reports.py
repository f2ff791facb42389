"""What it cost, grouped: the ledger's five amounts kept apart, the same totals under any grouping.

Theory. Every ledger row falls into exactly one group of every grouping, so sums over groups are
sums over rows; nothing is allotted or rounded here. A report covers the attempts dispatched in
[since, until), by the prices that were booked: later rules change nothing. `reserved` is what jobs
hold now, counted where their reservations were made in the period; groupings that a reservation
does not know (executor, model, failure class ...) show it in the group without a key.

total = incurred + wasted + unallocated: what was really paid. Reserved is not paid yet, avoided
never. Ids of scheduling's things are returned as they are; their names are its own.
"""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from django.db.models import Count, DecimalField, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from billing.core.dimensions import DIMENSION_METERS
from billing.models import LedgerEntry, Reservation
from tenants.models import Tenant, Workspace

_ZERO = Decimal(0)
_MONEY: "DecimalField[Decimal, Decimal]" = DecimalField(max_digits=24, decimal_places=12)
_INPUT = ("input", "cached_read", "cached_write")
_OUTPUT = tuple(meter for meter in DIMENSION_METERS["tokens"] if meter not in _INPUT)

GROUPINGS = {
    "tenant": "tenant_id",
    "workspace": "workspace_id",
    "member": "member_id",
    "workflow": "workflow_id",
    "mission": "mission_id",
    "job": "job_id",
    "attempt": "attempt_id",
    "executor": "executor_id",
    "provider": "provider",
    "model": "model",
    "meter": "meter",
    "failure_class": "failure_class",
    "rule": "rule_id",
}
_RESERVATION_KNOWS = ("tenant", "workspace", "workflow", "mission", "job")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """One group. `key` is an id or a name, "" for what has none; `label` a slug where known here.

    Money is in USD. `jobs` counts the distinct jobs of the group; a job may be in several groups.
    """

    key: str
    label: str = ""
    reserved: Decimal = _ZERO
    incurred: Decimal = _ZERO
    wasted: Decimal = _ZERO
    avoided: Decimal = _ZERO
    unallocated: Decimal = _ZERO
    input_tokens: int = 0
    output_tokens: int = 0
    jobs: int = 0

    @property
    def total(self) -> Decimal:
        """What was paid: incurred, wasted and unallocated together."""
        return self.incurred + self.wasted + self.unallocated


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeLine:
    """One ledger row of a job, with the rule that priced it."""

    attempt_id: uuid.UUID
    provider: str
    model: str
    kind: str
    meter: str
    quantity: Decimal
    amount: Decimal
    failure_class: str
    rule_id: uuid.UUID
    rule_source: str
    rule_starts_at: datetime
    dispatched_at: datetime


def tenant_costs(
    *,
    tenants: Collection[uuid.UUID] | None,
    since: datetime,
    until: datetime,
    by: str = "tenant",
) -> list[CostRow]:
    """Return the costs of the tenants (None: all) in [since, until), one row a group, by key.

    Raises `ValueError` for an unknown grouping.
    """
    if by not in GROUPINGS:
        message = f"unknown grouping {by!r}: use one of {', '.join(GROUPINGS)}"
        raise ValueError(message)
    entries = LedgerEntry.objects.filter(dispatched_at__gte=since, dispatched_at__lt=until)
    holds = Reservation.objects.filter(state="open", created_at__gte=since, created_at__lt=until)
    if tenants is not None:
        entries = entries.filter(tenant_id__in=tenants)
        holds = holds.filter(tenant_id__in=tenants)
    return _merged(by, _ledger_groups(entries, by), _reserved_groups(holds, by))


def costs_total(rows: Iterable[CostRow]) -> CostRow:
    """Return the sums over the rows; the same for every grouping, but for `jobs`."""
    listed = list(rows)
    return CostRow(
        key="",
        label="total",
        reserved=sum((row.reserved for row in listed), _ZERO),
        incurred=sum((row.incurred for row in listed), _ZERO),
        wasted=sum((row.wasted for row in listed), _ZERO),
        avoided=sum((row.avoided for row in listed), _ZERO),
        unallocated=sum((row.unallocated for row in listed), _ZERO),
        input_tokens=sum(row.input_tokens for row in listed),
        output_tokens=sum(row.output_tokens for row in listed),
        jobs=sum(row.jobs for row in listed),
    )


def cost_of_job(job_id: uuid.UUID) -> CostRow:
    """Return what a job has cost so far over all of its attempts, and what it still holds."""
    entries = LedgerEntry.objects.filter(job_id=job_id)
    holds = Reservation.objects.filter(job_id=job_id, state="open")
    rows = _merged("job", _ledger_groups(entries, "job"), _reserved_groups(holds, "job"))
    return rows[0] if rows else CostRow(key=str(job_id))


def charges_of_job(job_id: uuid.UUID) -> list[ChargeLine]:
    """Return a job's ledger rows in the order of booking, each with its price rule."""
    entries = LedgerEntry.objects.filter(job_id=job_id).select_related("rule")
    return [
        ChargeLine(
            attempt_id=entry.attempt_id,
            provider=entry.provider,
            model=entry.model,
            kind=entry.kind,
            meter=entry.meter,
            quantity=entry.quantity,
            amount=entry.amount,
            failure_class=entry.failure_class,
            rule_id=entry.rule_id,
            rule_source=entry.rule.source,
            rule_starts_at=entry.rule.starts_at,
            dispatched_at=entry.dispatched_at,
        )
        for entry in entries.order_by("at", "id")
    ]


def _sum(field: str, **only: object) -> Coalesce:
    total = Sum(field, filter=Q(**only), output_field=_MONEY)
    return Coalesce(total, _ZERO, output_field=_MONEY)


def _key(value: object) -> str:
    return "" if value is None else str(value)


def _ledger_groups(entries: QuerySet[LedgerEntry], by: str) -> dict[str, CostRow]:
    rows = (
        entries.order_by()
        .values(group=F(GROUPINGS[by]))
        .annotate(
            incurred=_sum("amount", kind="incurred"),
            wasted=_sum("amount", kind="wasted"),
            avoided=_sum("amount", kind="avoided"),
            unallocated=_sum("amount", kind="unallocated"),
            input_tokens=_sum("quantity", meter__in=_INPUT),
            output_tokens=_sum("quantity", meter__in=_OUTPUT),
            jobs=Count("job_id", distinct=True),
        )
    )
    return {
        _key(row["group"]): CostRow(
            key=_key(row["group"]),
            incurred=row["incurred"],
            wasted=row["wasted"],
            avoided=row["avoided"],
            unallocated=row["unallocated"],
            input_tokens=int(row["input_tokens"]),
            output_tokens=int(row["output_tokens"]),
            jobs=row["jobs"],
        )
        for row in rows
    }


def _reserved_groups(holds: QuerySet[Reservation], by: str) -> dict[str, Decimal]:
    """Return the held money by group; all of it under "" where a reservation has no such key."""
    if by not in _RESERVATION_KNOWS:
        held = holds.aggregate(held=Sum("spend"))["held"]
        return {"": held} if held else {}
    rows = holds.order_by().values(group=F(GROUPINGS[by])).annotate(held=Sum("spend"))
    return {_key(row["group"]): row["held"] for row in rows}


def _merged(by: str, booked: dict[str, CostRow], reserved: dict[str, Decimal]) -> list[CostRow]:
    keys = sorted(booked.keys() | reserved.keys())
    labels = _labels(by, keys)
    return [
        replace(
            booked.get(key, CostRow(key=key)),
            label=labels.get(key, ""),
            reserved=reserved.get(key, _ZERO),
        )
        for key in keys
    ]


def _labels(by: str, keys: list[str]) -> dict[str, str]:
    """Return the slugs of tenants and workspaces (as tenant/workspace) by id."""
    ids = [key for key in keys if key]
    if by == "tenant":
        tenants = Tenant.objects.filter(id__in=ids)
        return {str(tenant.id): tenant.slug for tenant in tenants}
    if by == "workspace":
        workspaces = Workspace.objects.filter(id__in=ids).select_related("tenant")
        return {str(w.id): f"{w.tenant.slug}/{w.slug}" for w in workspaces}
    return {}

"""Levers on tenants, and the one door of the audit.

A lever is one keyword-only function that checks, changes and audits in one transaction. Its number
comes from the control clock, whose row lock puts all changes in the order of their commits.
"""

import uuid
from collections.abc import Mapping
from typing import Any, TypeAlias

from django.db import connection, transaction

from tenants.models import AuditEntry, ControlClock, Tenant
from tenants.prepared import prepared

MAX_WEIGHT = 1000

Version: TypeAlias = tuple[int, int]
"""Where the control clock stands: the last change's number, and the transaction that gave it."""
NO_VERSION: Version = (0, 0)
"""The clock has never moved."""
VERSION_SQL = "SELECT number, xmin::text::bigint AS writer FROM tenants_controlclock"
"""Reads the clock's version; it has no row before the first change."""


class ControlRefused(Exception):
    """A lever was asked for something that it does not do; `field` and the sentence say what."""

    def __init__(self, field: str, sentence: str) -> None:
        """Keep the field and the sentence."""
        super().__init__(sentence)
        self.field = field
        self.sentence = sentence


def control_number() -> int:
    """Return the number of the last committed change (0: none yet)."""
    return ControlClock.objects.values_list("number", flat=True).first() or 0


def control_version() -> Version:
    """Return where the clock stands, which says whether what was read before is still true.

    The number alone would not do: a change that is rolled back gives its number to the next one.
    """
    with prepared() as cursor:
        cursor.execute(VERSION_SQL)
        found: Version | None = cursor.fetchone()
    return found or NO_VERSION


def _next_number() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tenants_controlclock (id, number) VALUES (1, 1) "
            "ON CONFLICT (id) DO UPDATE SET number = tenants_controlclock.number + 1 "
            "RETURNING number"
        )
        row: tuple[int] = cursor.fetchone()
    return row[0]


def record_change(
    *,
    actor: str,
    action: str,
    tenant: Tenant | None,
    target: tuple[str, uuid.UUID | str],
    change: tuple[Mapping[str, Any], Mapping[str, Any]],
    reason: str,
) -> int:
    """Write the audit entry of a change (before, after) and return its number.

    Must be called in the change's transaction; raises `ControlRefused` without a reason.
    """
    if not reason.strip():
        raise ControlRefused("reason", "Say why: a change needs a reason.")
    if not connection.in_atomic_block:
        message = "record_change must run in the transaction of the change"
        raise transaction.TransactionManagementError(message)
    number = _next_number()
    AuditEntry.objects.create(
        number=number,
        actor=actor,
        action=action,
        tenant=tenant,
        target_type=target[0],
        target_id=str(target[1]),
        before=dict(change[0]),
        after=dict(change[1]),
        reason=reason,
    )
    return number


@transaction.atomic
def tenant_weight(*, tenant_id: uuid.UUID, weight: int, acting_user: str, reason: str) -> int:
    """Set a tenant's weight; 0 holds it, a positive weight lifts the hold. Returns the number.

    Raises `ControlRefused` for a weight out of 0..1000 and `Tenant.DoesNotExist`.
    """
    if not 0 <= weight <= MAX_WEIGHT:
        raise ControlRefused("weight", f"A weight is 0 (hold) to {MAX_WEIGHT}, not {weight}.")
    tenant = Tenant.objects.select_for_update(no_key=True).get(id=tenant_id)
    before = {"weight": tenant.weight, "held": tenant.held}
    tenant.held = weight == 0
    tenant.weight = weight or tenant.weight
    tenant.save(update_fields=["weight", "held"])
    return record_change(
        actor=acting_user,
        action="tenant_weight",
        tenant=tenant,
        target=("tenant", tenant.id),
        change=(before, {"weight": tenant.weight, "held": tenant.held}),
        reason=reason,
    )

"""Policy levers: every setting of the scheduler, drafted, published as a numbered version, undone.

A version's number is that of its draft, and numbers grow with time: a draft that a later version
has overtaken is not published, for its author has not seen what that one changed. What is published
never changes (a trigger of the table holds it); rolling back publishes old settings anew.
"""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from scheduling.core.policy.document import policy_from_dict, to_dict
from scheduling.events import nudge_on_commit
from scheduling.models import PolicyVersion
from tenants.controls import ControlRefused, record_change


class PolicyConflict(ControlRefused):
    """The version is not what it must be for the lever, or another was published meanwhile."""


def policy_validate(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as they would be stored, with every default written out.

    Raises `InvalidPolicy` with every wrong field; writes nothing.
    """
    return to_dict(policy_from_dict(body))


@transaction.atomic
def policy_draft(
    *,
    body: Mapping[str, Any],
    note: str,
    acting_user: str,
    reason: str,
    number: int | None = None,
) -> int:
    """Keep settings as a new draft, or rewrite the draft `number`; returns its number.

    A draft that was overtaken gets a new number by being rewritten. Raises `InvalidPolicy`,
    `PolicyConflict` for a version that is no draft, `ControlRefused` without a reason, and
    `PolicyVersion.DoesNotExist`.
    """
    settings = policy_validate(body)
    current = _locked()
    old = _draft(number) if number is not None else None
    before = old.body if old else current.body if current else {}
    new = old.number if old and not _overtaken(old.number) else _next_number()
    if old is not None:
        PolicyVersion.objects.filter(number=old.number).delete()
    PolicyVersion.objects.create(
        number=new, state="draft", body=settings | {"number": new}, note=note, author=acting_user
    )
    record_change(
        actor=acting_user,
        action="policy_draft",
        tenant=None,
        target=("policy", str(new)),
        change=_changed(before, settings),
        reason=reason,
    )
    return new


@transaction.atomic
def policy_publish(
    *,
    note: str,
    acting_user: str,
    body: Mapping[str, Any] | None = None,
    number: int | None = None,
    over: int | None = None,
) -> int:
    """Publish settings (`body`) or the draft `number` as the policy in force; returns its number.

    `body` names any subset of the settings, the rest are defaults; beside `number` it stands in
    place of the draft's. `over` is the version that the publisher takes to be in force. Raises `InvalidPolicy` with every wrong field, `PolicyConflict`
    for a draft that is none or was overtaken and when `over` is not in force, `ControlRefused`
    without a note, and `PolicyVersion.DoesNotExist`.
    """
    if body is None and number is None:
        raise ValueError("publish a body or a draft's number")
    current = _locked()
    if over is not None and (current is None or current.number != over):
        raise _meanwhile(over)
    if number is None:
        row = PolicyVersion(number=_next_number(), author=acting_user)
    else:
        row = _draft(number)
        if _overtaken(number):
            raise _meanwhile(number)
    row.body = row.body if body is None else body
    _put_in_force(row, current, note=note)
    return _recorded("policy_publish", current, {"active": row.number}, acting_user, note)


@transaction.atomic
def policy_roll_back(*, number: int, note: str, acting_user: str) -> int:
    """Publish the settings of a version that was in force before, anew; returns the new number.

    Raises `PolicyConflict` for a draft and for the version in force, `InvalidPolicy` when its
    settings are none any more, `ControlRefused` without a note, and `PolicyVersion.DoesNotExist`.
    """
    current = _locked()
    old = PolicyVersion.objects.get(number=number)
    if old.state != "retired":
        what = "a draft: publish it" if old.state == "draft" else "in force already"
        sentence = f"Version {number} is {what}."
        raise PolicyConflict("number", sentence)
    row = PolicyVersion(number=_next_number(), author=acting_user, body=old.body)
    _put_in_force(row, current, note=note)
    after = {"active": row.number, "settings_of": number}
    return _recorded("policy_roll_back", current, after, acting_user, note)


def _locked() -> PolicyVersion | None:
    """Return the version in force; whoever numbers versions waits here, at the oldest, in turn."""
    PolicyVersion.objects.select_for_update().order_by("number").first()
    return PolicyVersion.objects.filter(state="active").first()


def _next_number() -> int:
    return (PolicyVersion.objects.aggregate(last=Max("number"))["last"] or 0) + 1


def _draft(number: int) -> PolicyVersion:
    row = PolicyVersion.objects.get(number=number)
    if row.state != "draft":
        sentence = f"Version {number} is published and never changes; draft anew, or roll back."
        raise PolicyConflict("number", sentence)
    return row


def _overtaken(number: int) -> bool:
    return PolicyVersion.objects.exclude(state="draft").filter(number__gt=number).exists()


def _meanwhile(number: int) -> PolicyConflict:
    sentence = (
        f"A later version than {number} was published meanwhile; look at what it changed, "
        "then draft anew."
    )
    return PolicyConflict("number", sentence)


def _put_in_force(row: PolicyVersion, current: PolicyVersion | None, *, note: str) -> None:
    settings = policy_validate(row.body)
    if current is not None:
        current.state = "retired"
        current.save(update_fields=["state"])
    row.state, row.note, row.published_at = "active", note, timezone.now()
    row.body = settings | {"number": row.number}
    row.save()


def _recorded(
    action: str,
    current: PolicyVersion | None,
    after: Mapping[str, int],
    acting_user: str,
    note: str,
) -> int:
    """Audit the change of the version in force, wake the governor, return the new number."""
    record_change(
        actor=acting_user,
        action=action,
        tenant=None,
        target=("policy", str(after["active"])),
        change=({"active": current.number if current else None}, after),
        reason=note,
    )
    nudge_on_commit()
    return after["active"]


def _changed(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings that differ, as they were and as they are."""
    keys = [key for key in after if key != "number" and before.get(key) != after[key]]
    return {key: before.get(key) for key in keys}, {key: after[key] for key in keys}

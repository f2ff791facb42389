"""Policy levers: every setting of the scheduler, published as a numbered version."""

from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from scheduling.core.policy.document import policy_from_dict, to_dict
from scheduling.events import nudge_on_commit
from scheduling.models import PolicyVersion
from tenants.controls import record_change


@transaction.atomic
def policy_publish(*, body: dict[str, Any], note: str, acting_user: str) -> int:
    """Publish settings as the next policy version; returns its number.

    `body` names any subset of the settings, the rest are defaults. Raises `InvalidPolicy` with
    every wrong field, and `ControlRefused` without a note.
    """
    policy = policy_from_dict(body)
    # Publishers wait for each other at the oldest version, for the active one changes under them.
    PolicyVersion.objects.select_for_update().order_by("number").first()
    current = PolicyVersion.objects.filter(state="active").first()
    number = (PolicyVersion.objects.aggregate(last=Max("number"))["last"] or 0) + 1
    if current is not None:
        current.state = "retired"
        current.save(update_fields=["state"])
    PolicyVersion.objects.create(
        number=number,
        state="active",
        body=to_dict(policy) | {"number": number},
        note=note,
        author=acting_user,
        published_at=timezone.now(),
    )
    record_change(
        actor=acting_user,
        action="policy_publish",
        tenant=None,
        target=("policy", str(number)),
        change=({"active": current.number if current else None}, {"active": number}),
        reason=note,
    )
    nudge_on_commit()
    return number

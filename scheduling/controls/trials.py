"""The lever that tries a policy: its effect on the backlog is worked out, and nothing is changed.

A trial is work for another process; the lever asks for it and wakes the governor, which sends it
on its way. Publishing what was tried stays an act of its own.
"""

from django.db import transaction

from scheduling.core.policy.document import policy_from_dict
from scheduling.events import nudge_on_commit
from scheduling.models import PolicyTrial, PolicyVersion
from scheduling.services.trials import OtherSettingsTried, TooManyTrials, trial_open
from tenants.controls import ControlRefused, record_change


@transaction.atomic
def policy_simulate(*, number: int, acting_user: str, reason: str) -> PolicyTrial:
    """Ask for a trial of a version on the live backlog; returns it, or the one that is open.

    Raises `InvalidPolicy` when the version's settings are none any more, `ControlRefused` without a
    reason, when too many trials are open and when the version's own runs with the settings that it
    had before, and `PolicyVersion.DoesNotExist`.
    """
    # Who drafts, publishes or asks for a trial does so in turn, at the oldest version.
    PolicyVersion.objects.select_for_update(no_key=True).order_by("number").first()
    row = PolicyVersion.objects.get(number=number)
    policy_from_dict(row.body)
    try:
        trial = trial_open(number=number, body=row.body, asked_by=acting_user)
    except TooManyTrials:
        raise ControlRefused(
            "number", "Other trials are still running; ask again when one of them has ended."
        ) from None
    except OtherSettingsTried:
        raise ControlRefused(
            "number",
            "A trial of this draft as it was before still runs; ask again when it has ended.",
        ) from None
    record_change(
        actor=acting_user,
        action="policy_simulate",
        tenant=None,
        target=("policy", str(number)),
        change=({}, {"trial": str(trial.id)}),
        reason=reason,
    )
    nudge_on_commit()
    return trial

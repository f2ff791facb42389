"""Trials of policies from being asked for to their result, one row each.

A trial is asked for in a row, taken by whoever runs it (one at a time, for each keeps a processor
busy), and ended by its result or by a sentence that says what kept it. Who took one and died leaves it running: it is then failed after `GIVEN_UP`,
so that it can be asked for again. Old trials are forgotten as new ones are asked for.
"""

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from scheduling.models import PolicyTrial

GIVEN_UP = timedelta(seconds=120)
"""How long a trial may run; a run over 100,000 waiting jobs takes some ten seconds."""
OPEN_MOST = 5
"""So many trials may be open at once; they run one after another."""
KEPT_MOST = 50
_NEVER_ENDED = "Its run was broken off before it ended; ask again."


class TooManyTrials(Exception):
    """As many trials are open as may be: wait for one to end."""


class OtherSettingsTried(Exception):
    """The trial of this version that runs tries the settings that it had before: wait for its end."""


@transaction.atomic
def trial_open(*, number: int, body: Mapping[str, Any], asked_by: str) -> PolicyTrial:
    """Return the open trial of a version with these settings, made now if there is none.

    One that is not begun gets the settings that its draft was rewritten to. Callers ask one after
    another (`policy_simulate` sees to it). Raises `TooManyTrials` and `OtherSettingsTried`.
    """
    open_ones = list(PolicyTrial.objects.select_for_update().filter(_OPEN))
    for one in open_ones:
        if one.number == number:
            return _with_settings(one, dict(body))
    if len(open_ones) >= OPEN_MOST:
        raise TooManyTrials
    _forget()
    return PolicyTrial.objects.create(number=number, body=dict(body), asked_by=asked_by)


def _with_settings(trial: PolicyTrial, body: dict[str, Any]) -> PolicyTrial:
    if trial.body != body:
        if trial.state != "asked":
            raise OtherSettingsTried
        trial.body = body
        trial.save(update_fields=["body"])
    return trial


def trial_is_due(now: datetime) -> bool:
    """Tell whether a trial waits to be run and none runs, or one was left by who ran it."""
    open_ones = dict(PolicyTrial.objects.filter(_OPEN).values_list("state", "began_at"))
    began = open_ones.get("running")
    return bool(open_ones) if began is None else began < now - GIVEN_UP


@transaction.atomic
def trial_take(now: datetime) -> uuid.UUID | None:
    """Take the trial that was asked for first, to run it; None where none waits or one runs."""
    open_ones = list(PolicyTrial.objects.select_for_update().filter(_OPEN).order_by("id"))
    for one in open_ones:
        if one.began_at is not None and one.began_at < now - GIVEN_UP:
            trial_fail(one.id, sentence=_NEVER_ENDED, now=now)
        elif one.began_at is not None:
            return None
    asked = next((one for one in open_ones if one.state == "asked"), None)
    if asked is None:
        return None
    asked.state, asked.began_at = "running", now
    asked.save(update_fields=["state", "began_at"])
    return asked.id


def trial_finish(
    trial_id: uuid.UUID, *, result: Mapping[str, Any], against: int, now: datetime
) -> bool:
    """Store what a running trial came to; False for one that was given up meanwhile."""
    running = PolicyTrial.objects.filter(id=trial_id, state="running")
    return bool(running.update(state="done", result=result, against=against, ended_at=now))


def trial_fail(trial_id: uuid.UUID, *, sentence: str, now: datetime) -> bool:
    """Store what kept a running trial from its result; False for one that has ended."""
    running = PolicyTrial.objects.filter(id=trial_id, state="running")
    return bool(running.update(state="failed", sentence=sentence, ended_at=now))


_OPEN = Q(state__in=("asked", "running"))


def _forget() -> None:
    ended = PolicyTrial.objects.exclude(_OPEN).order_by("-id")
    kept = list(ended.values_list("id", flat=True)[: KEPT_MOST - 1])
    PolicyTrial.objects.exclude(_OPEN).exclude(id__in=kept).delete()

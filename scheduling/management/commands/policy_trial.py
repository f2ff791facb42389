"""`manage.py policy_trial ID`: run a trial that was asked for. The control worker starts it.

A process of its own: over a large backlog a trial keeps a processor busy for some seconds and takes
hundreds of megabytes, and both are given back when it ends.
"""

import gc
import logging
import os
import time
import uuid
from datetime import UTC, datetime

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.core.policy.document import InvalidPolicy
from scheduling.events import valkey_client
from scheduling.governor.trial import trial_play
from scheduling.models import PolicyTrial, PolicyVersion
from scheduling.services.trials import trial_fail, trial_finish

log = logging.getLogger(__name__)

NICE = 5
"""A trial may be a little late; the work that goes on comes first."""


class Command(BaseCommand):
    """Plays the trial and stores what came of it."""

    help = "Run a trial of a policy on the live backlog; it must have been taken."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Which trial."""
        parser.add_argument("id", type=uuid.UUID, help="the trial's id")

    def handle(self, *_args: object, id: uuid.UUID, **_options: object) -> None:
        """Run it; a trial that cannot be run says why."""
        trial = PolicyTrial.objects.filter(id=id, state="running").first()
        if trial is None:
            message = f"There is no trial {id} that is running."
            raise CommandError(message)
        os.nice(NICE)
        gc.disable()  # the process ends with the trial: nobody need look what could be freed
        trial_run(trial)
        gc.freeze()  # nor on its way out


def trial_run(trial: PolicyTrial) -> None:
    """Play a trial that is running and store its end."""
    began = time.monotonic()
    try:
        played = trial_play(trial, client=valkey_client(), now=datetime.now(UTC).timestamp())
    except InvalidPolicy as wrong:
        _failed(trial, f"Its settings are no policy: {wrong}")
        return
    except PolicyVersion.DoesNotExist:
        _failed(trial, "No policy is in force to set it against; publish one.")
        return
    took_s = time.monotonic() - began
    result = played.result | {"took_s": round(took_s, 2)}
    trial_finish(trial.id, result=result, against=played.against, now=datetime.now(UTC))
    log.info("trial of policy %d took %.1f s", trial.number, took_s)


def _failed(trial: PolicyTrial, sentence: str) -> None:
    trial_fail(trial.id, sentence=sentence, now=datetime.now(UTC))

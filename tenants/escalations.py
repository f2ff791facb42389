"""What every escalation keeps to, be it of a budget or of a limit: its span of time, its owner.

Theory. What is in force is derived from time, as windows are: nothing runs when an escalation
begins or ends. Ending one early moves its end; the row stays.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import models
from django.db.models.functions import Now

from tenants.controls import ControlRefused

LONGEST = timedelta(days=366)
OWNER_LENGTH = 200


class EscalationRow(models.Model):
    """The columns of every escalation beside what it raises and by how much."""

    owner = models.CharField(max_length=OWNER_LENGTH)
    reason = models.TextField()
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        """No table of its own."""

        abstract = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated:
    """The escalation that was made, and the change's number."""

    id: uuid.UUID
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """From when (None: at once) to when something is raised, and who answers for it ("": who acts)."""

    ends_at: datetime
    starts_at: datetime | None = None
    owner: str = ""


def term_start(term: Term, now: datetime) -> datetime:
    """Return when an escalation starts.

    Raises `ControlRefused` for a time that is over, empty or longer than a year, and for an owner
    whose name is too long.
    """
    starts_at = term.starts_at or now
    if term.ends_at <= max(starts_at, now):
        raise ControlRefused("ends_at", "It must end after it starts, and after now.")
    if term.ends_at - starts_at > LONGEST:
        sentence = f"It lasts at most {LONGEST.days} days; to raise it for good, set the limit."
        raise ControlRefused("ends_at", sentence)
    if len(term.owner) > OWNER_LENGTH:
        raise ControlRefused("owner", f"An owner has at most {OWNER_LENGTH} characters.")
    return starts_at


def early_end(starts_at: datetime, ends_at: datetime, now: datetime) -> datetime:
    """Return the end of an escalation that is ended now; one that has not begun never begins.

    Raises `ControlRefused` for one that has ended.
    """
    if ends_at <= now:
        raise ControlRefused("escalation", f"It ended at {ends_at.isoformat()} already.")
    return max(starts_at, now)

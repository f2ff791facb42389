"""How far a job has come, and what has happened to it since: what those who wait for it ask."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from scheduling.core.states import ENDED_JOBS, AttemptState, JobState
from scheduling.models import Attempt, Job, JobEvent

FIRST_S = 0.02
LONGEST_S = 0.25
STORY_MOST = 200
"""How many events one look returns at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A job's state and why. `placed`: the attempt that nobody has claimed yet, with its fence."""

    state: JobState
    reason: str
    placed: tuple[uuid.UUID, int] | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it by itself."""
        return self.state in ENDED_JOBS

    @property
    def started(self) -> bool:
        """Whether it has been placed, or has ended."""
        return self.ended or self.state is JobState.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The events that followed the one asked for; `whole`: the job has ended and these are all."""

    events: tuple[JobEvent, ...]
    whole: bool


def pauses(first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> Iterator[float]:
    """Yield the seconds to wait between two looks: short at first, then longer ones."""
    while True:
        yield first_s
        first_s = min(longest_s, first_s * 1.5)


def standing_of(job_id: uuid.UUID) -> Standing:
    """Return how far a job has come; raises `Job.DoesNotExist`."""
    state, reason, fence = Job.objects.values_list("state", "reason", "fence").get(id=job_id)
    placed = None
    if state == JobState.RUNNING:
        live = Attempt.objects.filter(job=job_id, fence=fence, state=AttemptState.DISPATCHED)
        placed = live.values_list("id", "fence").first()
    return Standing(state=JobState(state), reason=reason, placed=placed)


def story_since(job_id: uuid.UUID, event_id: int) -> Story:
    """Return what happened to a job after an event, oldest first; raises `Job.DoesNotExist`.

    The state is read before the events: whoever ends a job tells of it in the same transaction, so
    behind an ended state there is no event that this does not see.
    """
    ended = standing_of(job_id).ended
    events = JobEvent.objects.filter(job=job_id, id__gt=event_id).order_by("id")[: STORY_MOST + 1]
    found = tuple(events)
    return Story(events=found[:STORY_MOST], whole=ended and len(found) <= STORY_MOST)

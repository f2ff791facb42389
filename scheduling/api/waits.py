"""Long polls: `?wait=` seconds on a job, until it has ended (or, with `wait_for`, has started).

A waiting request holds a thread of the server and looks at the job's row a few times a second; it
holds no database connection meanwhile. How long and how many may wait is bounded, so that waiting
stops nobody else. Who asks is asked again at the end: a right that was taken away gives no answer.
"""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from django.db import close_old_connections
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from scheduling.api.authentication import REFUSED, principal_again
from scheduling.api.documents import parameter
from scheduling.api.endpoint import whole_number
from scheduling.api.places import Places
from scheduling.api.problems import invalid
from scheduling.selectors.story import pauses, standing_of
from scheduling.services.drafts import FieldError
from tenants.rbac import Principal

LONGEST_S = 60
ENDED, RUNNING = "ended", "running"
WAIT_FILTERS = frozenset({"wait", "wait_for"})
WAITS = Places(most=100, of_one=25)
"""The requests of this process that wait."""
WAIT_PARAMETERS = (
    parameter("wait", f"Seconds to wait for the job, 0 to {LONGEST_S}; 0 answers at once."),
    parameter("wait_for", "What to wait for.", enum=[ENDED, RUNNING]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """How long to wait for a job, and for what."""

    seconds: int
    until: str

    def is_over(self, job_id: uuid.UUID) -> bool:
        """Tell whether the job has come so far."""
        standing = standing_of(job_id)
        return standing.ended if self.until == ENDED else standing.started


def wait_asked(request: Request) -> Wait:
    """Return how long the caller would wait; raises a 400 `Problem`."""
    until = request.query_params.get("wait_for", ENDED)
    if until not in (ENDED, RUNNING):
        sentence = f"Must be {ENDED} or {RUNNING}, not {until[:60]!r}."
        raise invalid(FieldError(field="wait_for", sentence=sentence))
    return Wait(seconds=whole_number(request, "wait", 0, (0, LONGEST_S)), until=until)


def wait_for(job_id: uuid.UUID, wait: Wait, who: str) -> None:
    """Return when the job has come so far or the time is over; raises a 429 `Problem`."""
    wait_until(lambda: wait.is_over(job_id), wait.seconds, who)


def wait_until(is_over: Callable[[], bool], seconds: int, who: str) -> None:
    """Return when it is over, whatever it is, or the time is; raises a 429 `Problem`."""
    if not seconds or is_over():
        return
    end = time.monotonic() + seconds
    with WAITS.held(who):
        for pause_s in pauses():
            close_old_connections()
            time.sleep(min(pause_s, max(0.0, end - time.monotonic())))
            if is_over() or time.monotonic() >= end:
                return


def still_here(request: Request) -> Principal:
    """Return who calls as it stands now, after a wait; raises 401 when it may call no more."""
    principal = principal_again(request)()
    if principal is None:
        raise AuthenticationFailed(REFUSED)
    return principal

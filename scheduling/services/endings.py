"""What follows from the end of an attempt: pure rules on plain values.

One table of cases, read from the top: a job that was asked to cancel ends canceled whatever its
worker reports (the result is kept as evidence, the usage is charged); a complete one is done; a
lost worker's job goes by the policy for lost work; else the retry rule speaks. Where a provider
failed and the policy names models that may stand in, the job goes back to admission, which chooses
among them (`services.fallback`); when its own model may be tried again is kept beside it.

A lost worker is no fault of the job, so it costs no try. A job that loses its worker again and
again may be what kills it, so `LOST_LIMIT` placements above its tries are the most it gets.
"""

from dataclasses import dataclass
from datetime import datetime

from scheduling.core.policy.fallback import has_list
from scheduling.core.policy.settings import OnLost, Policy
from scheduling.core.retry import Failure, decide, is_too_late, wait_s
from scheduling.core.states import ENDED_JOBS, AttemptState, JobEvent, JobState, job_move
from scheduling.core.types import Reason
from scheduling.executors.contract import ErrorClass, Outcome, Status

LOST_LIMIT = 10
PROVIDERS_FAULTS = frozenset(
    {
        ErrorClass.UNREACHABLE,
        ErrorClass.TIMEOUT,
        ErrorClass.RATE_LIMITED,
        ErrorClass.PROVIDER_ERROR,
        ErrorClass.INVALID_RESPONSE,
        ErrorClass.UNAUTHORIZED,
        ErrorClass.INTERRUPTED,
    }
)
"""What another model may not meet."""

_ATTEMPT_STATE = {
    Status.COMPLETE: AttemptState.COMPLETE,
    Status.INTERRUPTED: AttemptState.INTERRUPTED,
    Status.ERROR: AttemptState.ERROR,
    Status.CANCELED: AttemptState.CANCELED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How far a job has come when an attempt of it ends."""

    cancel_requested: bool
    tries: int
    fence: int
    max_attempts: int
    idempotent: bool
    deadline: datetime | None
    expected_s: float
    asked_model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The states that follow, the event's name, and when a waiting job wakes (epoch seconds).

    `retry_at` is when its own model may be tried again, for a job that looks for another.
    """

    attempt_state: AttemptState
    job_state: JobState
    event: str
    reason: Reason
    tries: int
    wake_at: float | None = None
    retry_at: float | None = None

    @property
    def final(self) -> bool:
        """Whether the job has ended with it."""
        return self.job_state in ENDED_JOBS


def ending_of(
    outcome: Outcome, course: Course, *, policy: Policy, now: float, jitter: float
) -> Ending:
    """Return what follows from an outcome that a worker reported."""
    state = _ATTEMPT_STATE[outcome.status]
    if course.cancel_requested:
        return _canceled(state, course)
    if outcome.status is Status.COMPLETE:
        return Ending(
            attempt_state=state,
            job_state=job_move(JobState.RUNNING, JobEvent.FINISH),
            event="finished",
            reason=Reason.FINISHED,
            tries=course.tries,
        )
    return _failed(outcome, state, course, policy=policy, now=now, jitter=jitter)


def ending_of_lost(course: Course, *, policy: Policy) -> Ending:
    """Return what follows when the worker of a claimed attempt is gone."""
    if course.cancel_requested:
        return _canceled(AttemptState.LOST, course)
    on_lost = policy.on_lost_idempotent if course.idempotent else policy.on_lost_other
    again = on_lost is OnLost.REQUEUE and course.fence < course.max_attempts + LOST_LIMIT
    event = JobEvent.REQUEUE if again else JobEvent.FAIL
    return Ending(
        attempt_state=AttemptState.LOST,
        job_state=job_move(JobState.RUNNING, event),
        event="requeued" if again else "failed",
        reason=Reason.WORKER_LOST,
        tries=course.tries,
    )


def _canceled(state: AttemptState, course: Course) -> Ending:
    return Ending(
        attempt_state=state,
        job_state=job_move(JobState.RUNNING, JobEvent.CANCEL),
        event="canceled",
        reason=Reason.CANCELED,
        tries=course.tries,
    )


def _failed(
    outcome: Outcome,
    state: AttemptState,
    course: Course,
    *,
    policy: Policy,
    now: float,
    jitter: float,
) -> Ending:
    error = outcome.error_class or ErrorClass.INTERNAL
    # An attempt that its worker gave up (a shutdown) was not the job's wish: it goes on elsewhere.
    given_up = error is ErrorClass.CANCELED
    falls_back = error in PROVIDERS_FAULTS and has_list(policy, course.asked_model)
    failure = Failure(
        retryable=error.retryable or given_up or falls_back,
        counts_as_try=error.counts_as_try,
        tries=course.tries,
        unreached=max(0, course.fence - 1 - course.tries),
        max_attempts=course.max_attempts,
        deadline=course.deadline.timestamp() if course.deadline else None,
        retry_after_s=outcome.retry_after_s,
        expected_s=course.expected_s,
    )
    decision = decide(failure, now=now, settings=policy.retry, jitter=jitter)
    tries = course.tries + error.counts_as_try
    too_late = decision.reason is Reason.DEADLINE and is_too_late(failure, now)
    if falls_back and not too_late and decision.reason is not Reason.ATTEMPTS_EXHAUSTED:
        return Ending(
            attempt_state=state,
            job_state=job_move(JobState.RUNNING, JobEvent.FALL_BACK),
            event="deferred",
            reason=Reason.FALLBACK,
            tries=tries,
            wake_at=now,
            retry_at=now + wait_s(failure, settings=policy.retry, jitter=jitter),
        )
    event = JobEvent.RETRY if decision.retry else JobEvent.FAIL
    return Ending(
        attempt_state=state,
        job_state=job_move(JobState.RUNNING, event),
        event="retried" if decision.retry else "failed",
        reason=decision.reason,
        tries=tries,
        wake_at=decision.not_before,
    )

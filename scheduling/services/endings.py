"""What follows from the end of an attempt: pure rules on plain values.

One table of cases, read from the top: a job that was asked to cancel ends canceled whatever its
worker reports (the result is kept as evidence, the usage is charged); a complete one is done, or
queued again where it was but a step; one that a ceiling stops has failed; one whose next step no
budget pays for goes back to admission; one that stopped to make room (for a higher class, or off a
drained executor) is queued again; a lost worker's job goes by the policy for lost work; else the
retry rule speaks.

Where a provider failed and the policy names models that may stand in, the job goes back to admission,
which chooses among them (`services.fallback`); when its own model may be tried again is kept beside it.

Making room is no fault of the job and costs no try, nor does it count among the placements of its
step. Who was asked to make room and ended otherwise is judged by that end alone.

Work that is done and needs a review is but a step: the review follows, and ends the job as it was
judged. A review that nobody finished (it was given back, or lay too long) goes back in the order.

A call that its caller makes (`RunsBy.CALLER`) ends with its first placement: nobody could run it
again but the caller, who asks anew.

What must not run twice is tried again only where nothing can have been done: it was refused, or
reached nobody.

A lost worker is no fault of the job, so it costs no try. A job that loses its worker again and
again may be what kills it, so `LOST_LIMIT` placements above its tries are the most a step gets.
"""

from datetime import datetime

from msgspec import Struct

from scheduling.core.policy.fallback import has_list
from scheduling.core.policy.settings import OnLost, Policy
from scheduling.core.retry import Failure, decide, is_too_late, wait_s
from scheduling.core.states import (
    ENDED_JOBS,
    AttemptState,
    JobEvent,
    JobState,
    Phase,
    WorkOutcome,
    job_move,
)
from scheduling.core.types import Reason
from scheduling.executors.contract import ErrorClass, Next, Outcome, Status, Unfunded
from scheduling.kinds.contract import RunsBy
from scheduling.kinds.registry import runs_by
from scheduling.models.attempt import MAKE_ROOM

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


class Course(Struct, frozen=True, kw_only=True):
    """How far a job has come when an attempt of it ends.

    `tries` are the failures of its present step, which began when its fence stood at `step_fence`.
    """

    cancel_requested: bool
    tries: int
    fence: int
    step_fence: int
    max_attempts: int
    idempotent: bool
    deadline: datetime | None
    expected_s: float = 0.0
    asked_model: str = ""
    needs_review: bool = False
    phase: str = Phase.WORK
    kind: str = ""
    stop_for: str = ""

    @property
    def placements(self) -> int:
        """How often the present step has been placed."""
        return self.fence - self.step_fence

    @property
    def by_caller(self) -> bool:
        """Whether its caller's own process runs it."""
        return runs_by(self.kind) is RunsBy.CALLER


class Ending(Struct, frozen=True, kw_only=True):
    """The states that follow, the event's name, and when a waiting job wakes (epoch seconds).

    `stepped`: the next placement is another step's; `phase`: what the job is at then (None: as it
    was). `outcome` is what became of the work of one that has ended.
    `retry_at` is when its own model may be tried again, for a job that looks for another.
    """

    attempt_state: AttemptState
    job_state: JobState
    event: str
    reason: Reason
    tries: int
    wake_at: float | None = None
    retry_at: float | None = None
    stepped: bool = False
    phase: Phase | None = None
    outcome: WorkOutcome = WorkOutcome.UNREVIEWED

    @property
    def made_room(self) -> bool:
        """Whether the attempt stopped for other work's sake."""
        return self.attempt_state is AttemptState.PREEMPTED

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
    if course.phase == Phase.REVIEW:
        return _reviewed(outcome.verdict, state)
    if outcome.status is Status.COMPLETE or outcome.ceiling or outcome.unfunded:
        return _by_work(outcome, state, course)
    if course.stop_for in MAKE_ROOM and outcome.error_class is ErrorClass.CANCELED:
        return _made_room(course)
    return _failed(outcome, state, course, policy=policy, now=now, jitter=jitter)


def ending_of_lost(course: Course, *, policy: Policy) -> Ending:
    """Return what follows when the worker of a claimed attempt is gone."""
    if course.cancel_requested:
        return _canceled(AttemptState.LOST, course)
    if course.phase == Phase.REVIEW:
        return _reviewed("", AttemptState.LOST)
    if course.by_caller:
        return _failed_for_good(AttemptState.LOST, course, Reason.CALLER_LOST)
    on_lost = policy.on_lost_idempotent if course.idempotent else policy.on_lost_other
    again = on_lost is OnLost.REQUEUE and course.placements < course.max_attempts + LOST_LIMIT
    event = JobEvent.REQUEUE if again else JobEvent.FAIL
    return Ending(
        attempt_state=AttemptState.LOST,
        job_state=job_move(JobState.RUNNING, event),
        event="requeued" if again else "failed",
        reason=Reason.WORKER_LOST,
        tries=course.tries,
    )


def _by_work(outcome: Outcome, state: AttemptState, course: Course) -> Ending:
    """Return what follows from work that came to its end, or may not go on."""
    if outcome.ceiling:
        return _ended(JobEvent.FAIL, Reason.HARD_CEILING, state, course)
    if outcome.unfunded is not None:
        return _deferred(outcome.unfunded, state, course)
    if outcome.next is not None:
        return _step(outcome.next, state)
    if course.needs_review:
        return _to_review(state)
    return _ended(JobEvent.FINISH, Reason.FINISHED, state, course)


def _ended(event: JobEvent, reason: Reason, state: AttemptState, course: Course) -> Ending:
    done = event is JobEvent.FINISH
    return Ending(
        attempt_state=state,
        job_state=job_move(JobState.RUNNING, event),
        event="finished" if done else "failed",
        reason=reason,
        tries=course.tries,
        outcome=WorkOutcome.ACCEPTED if done else WorkOutcome.UNREVIEWED,
    )


def _to_review(state: AttemptState) -> Ending:
    return Ending(
        attempt_state=state,
        job_state=job_move(JobState.RUNNING, JobEvent.STEP),
        event="review_waits",
        reason=Reason.REVIEW,
        tries=0,
        stepped=True,
        phase=Phase.REVIEW,
    )


def _reviewed(verdict: str, state: AttemptState) -> Ending:
    """End the job as it was judged; without a verdict its review waits for another reviewer."""
    event = JobEvent.FINISH if verdict else JobEvent.REQUEUE
    return Ending(
        attempt_state=state,
        job_state=job_move(JobState.RUNNING, event),
        event=verdict or "review_returned",
        reason=Reason(verdict or Reason.REVIEW),
        tries=0,
        outcome=WorkOutcome(verdict or WorkOutcome.UNREVIEWED),
    )


def _step(following: Next, state: AttemptState) -> Ending:
    """Queue the job for its next step; one that waits for its children is told to wait first."""
    event = JobEvent.WAIT if following.waits else JobEvent.STEP
    return Ending(
        attempt_state=state,
        job_state=job_move(JobState.RUNNING, event),
        event="stepped",
        reason=Reason.WAITING_ON_CHILD if following.waits else Reason.STEP_DONE,
        tries=0,
        stepped=True,
    )


def _deferred(unfunded: Unfunded, state: AttemptState, course: Course) -> Ending:
    """Send the job back to admission: what it held is given back, and it is not run unfunded."""
    return Ending(
        attempt_state=state,
        job_state=job_move(JobState.RUNNING, JobEvent.GIVE_BACK),
        event="deferred",
        reason=Reason.BUDGET,
        tries=course.tries,
        wake_at=unfunded.until,
    )


def _made_room(course: Course) -> Ending:
    return Ending(
        attempt_state=AttemptState.PREEMPTED,
        job_state=job_move(JobState.RUNNING, JobEvent.REQUEUE),
        event="preempted",
        reason=Reason.PREEMPTED,
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


def _failed_for_good(state: AttemptState, course: Course, reason: Reason) -> Ending:
    return Ending(
        attempt_state=state,
        job_state=job_move(JobState.RUNNING, JobEvent.FAIL),
        event="failed",
        reason=reason,
        tries=course.tries + (reason is Reason.EXECUTION_ERROR),
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
    if course.by_caller:
        return _failed_for_good(state, course, Reason.EXECUTION_ERROR)
    # An attempt that its worker gave up (a shutdown) was not the job's wish: it goes on elsewhere.
    given_up = error is ErrorClass.CANCELED
    may_repeat = course.idempotent or error.leaves_no_effect
    falls_back = may_repeat and error in PROVIDERS_FAULTS and has_list(policy, course.asked_model)
    failure = Failure(
        retryable=(error.retryable or given_up or falls_back) and may_repeat,
        counts_as_try=error.counts_as_try,
        tries=course.tries,
        unreached=max(0, course.placements - 1 - course.tries),
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

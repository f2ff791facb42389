"""Job and attempt states, and every move between them, as one table.

A move that is not in the table raises `IllegalMove` and changes nothing. Marks (held, paused,
blocked) and the outcome stand beside the state and are not moves. What one job may wait for of
another's end is here too.
"""

from enum import StrEnum


class JobState(StrEnum):
    """Where a job is in its life."""

    DENIED = "denied"
    DEFERRED = "deferred"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"


class AttemptState(StrEnum):
    """Where one placement of a job is."""

    DISPATCHED = "dispatched"
    RUNNING = "running"
    STOPPING = "stopping"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    ERROR = "error"
    CANCELED = "canceled"
    LOST = "lost"
    PREEMPTED = "preempted"


class JobEvent(StrEnum):
    """What can happen to a job."""

    DEFER = "defer"
    READMIT = "readmit"
    PLACE = "place"
    FINISH = "finish"
    STEP = "step"
    GIVE_BACK = "give_back"
    RETRY = "retry"
    FALL_BACK = "fall_back"
    REQUEUE = "requeue"
    WAIT = "wait"
    WAKE = "wake"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"


class Phase(StrEnum):
    """What a job is at: its work, or the review of it, which is a step of its own."""

    WORK = "work"
    REVIEW = "review"


class WorkOutcome(StrEnum):
    """What became of a job's work; `accepted` by a reviewer, or by being done where none is asked."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNREVIEWED = "unreviewed"


class Condition(StrEnum):
    """How a job that is waited for has to end.

    `done`, whatever a review said; `ended` in any way; `failed`: without its work, but not by
    anybody's wish (failed, expired, denied); `accepted` and `rejected` are done with that outcome.
    """

    DONE = "done"
    ENDED = "ended"
    FAILED = "failed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


class IllegalMove(Exception):
    """The table has no such move; nothing was changed."""

    def __init__(self, state: StrEnum, event: StrEnum) -> None:
        """Keep the state and the event that do not go together."""
        super().__init__(f"{event} is not possible in state {state}")
        self.state = state
        self.event = event


_S, _E = JobState, JobEvent

JOB_MOVES: dict[tuple[JobState, JobEvent], JobState] = {
    (_S.DEFERRED, _E.READMIT): _S.QUEUED,
    (_S.DEFERRED, _E.CANCEL): _S.CANCELED,
    (_S.DEFERRED, _E.EXPIRE): _S.EXPIRED,
    (_S.DEFERRED, _E.FAIL): _S.FAILED,
    (_S.QUEUED, _E.PLACE): _S.RUNNING,
    (_S.QUEUED, _E.DEFER): _S.DEFERRED,
    (_S.QUEUED, _E.FALL_BACK): _S.DEFERRED,
    (_S.QUEUED, _E.WAIT): _S.WAITING,
    (_S.QUEUED, _E.CANCEL): _S.CANCELED,
    (_S.QUEUED, _E.EXPIRE): _S.EXPIRED,
    (_S.QUEUED, _E.FAIL): _S.FAILED,
    (_S.RUNNING, _E.FINISH): _S.DONE,
    (_S.RUNNING, _E.STEP): _S.QUEUED,
    (_S.RUNNING, _E.GIVE_BACK): _S.DEFERRED,
    (_S.RUNNING, _E.RETRY): _S.WAITING,
    (_S.RUNNING, _E.FALL_BACK): _S.DEFERRED,
    (_S.RUNNING, _E.WAIT): _S.WAITING,
    (_S.RUNNING, _E.REQUEUE): _S.QUEUED,
    (_S.RUNNING, _E.FAIL): _S.FAILED,
    (_S.RUNNING, _E.CANCEL): _S.CANCELED,
    (_S.RUNNING, _E.EXPIRE): _S.EXPIRED,
    (_S.WAITING, _E.WAKE): _S.QUEUED,
    (_S.WAITING, _E.CANCEL): _S.CANCELED,
    (_S.WAITING, _E.EXPIRE): _S.EXPIRED,
    (_S.WAITING, _E.FAIL): _S.FAILED,
    (_S.FAILED, _E.REQUEUE): _S.QUEUED,
    (_S.CANCELED, _E.REQUEUE): _S.QUEUED,
    (_S.EXPIRED, _E.REQUEUE): _S.QUEUED,
}

LIVE_ATTEMPTS = frozenset({AttemptState.DISPATCHED, AttemptState.RUNNING, AttemptState.STOPPING})
WAITING_JOBS = frozenset({JobState.DEFERRED, JobState.QUEUED, JobState.WAITING})
ENDED_JOBS = frozenset(
    {JobState.DENIED, JobState.DONE, JobState.FAILED, JobState.CANCELED, JobState.EXPIRED}
)

_FAILED = frozenset({JobState.FAILED, JobState.EXPIRED, JobState.DENIED})

_A = AttemptState

ATTEMPT_MOVES: dict[AttemptState, frozenset[AttemptState]] = {
    _A.DISPATCHED: frozenset({_A.RUNNING, _A.CANCELED, _A.LOST, _A.PREEMPTED}),
    _A.RUNNING: frozenset(
        {_A.STOPPING, _A.COMPLETE, _A.INTERRUPTED, _A.ERROR, _A.CANCELED, _A.LOST, _A.PREEMPTED}
    ),
    _A.STOPPING: frozenset(
        {_A.COMPLETE, _A.INTERRUPTED, _A.ERROR, _A.CANCELED, _A.LOST, _A.PREEMPTED}
    ),
}


def job_move(state: JobState, event: JobEvent) -> JobState:
    """Return the state that `event` leads to; raise `IllegalMove` when there is none."""
    try:
        return JOB_MOVES[state, event]
    except KeyError:
        raise IllegalMove(state, event) from None


def job_sources(event: JobEvent) -> frozenset[JobState]:
    """Return the states in which `event` is possible: the guard of a set-based statement."""
    return frozenset(state for state, known in JOB_MOVES if known is event)


def meets(condition: str, state: JobState, outcome: str) -> bool:
    """Tell whether a job that has ended so meets what is waited for of it."""
    if condition == Condition.ENDED:
        return True
    if condition == Condition.FAILED:
        return state in _FAILED
    return state is JobState.DONE and condition in (Condition.DONE, outcome)


def attempt_move(state: AttemptState, to: AttemptState) -> AttemptState:
    """Return `to` when an attempt may go there from `state`; raise `IllegalMove` else."""
    if to not in ATTEMPT_MOVES.get(state, frozenset()):
        raise IllegalMove(state, to)
    return to

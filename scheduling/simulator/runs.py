"""A job of a running simulation: where it stands, and what its tries have done so far."""

from decimal import Decimal
from enum import Enum, auto

from msgspec import Struct, field

from scheduling.core.types import Job, Placement, Reason
from scheduling.simulator.scenario import SimJob

ZERO = Decimal(0)


class Stage(Enum):
    """What a job that has not ended is doing."""

    TIED = auto()
    """Waits for the jobs that it comes after."""
    DEFERRED = auto()
    """Waits for admission."""
    QUEUED = auto()
    """Stands in the order, or would if it were not paused."""
    LIVE = auto()
    RESTING = auto()
    """Waits for its next try."""
    ENDED = auto()


class Estimate(Struct, frozen=True, gc=False):
    """What a job was told when it was let in: the seconds to its finish, their range, and what the
    naive formula would have said."""

    at: float
    finish_s: float
    low_s: float
    high_s: float
    naive_s: float


class Guess(Struct, frozen=True, gc=False):
    """What was guessed of a job's wait and when: each way, and the one that was believed."""

    at: float
    told_s: tuple[float, ...]
    best_s: float


class Run(Struct, eq=False, gc=False):
    """A job that was submitted. Times and durations are seconds.

    `failed` counts the tries that the scenario wants to fail, `tries` the failures of the present
    step and `placements` how often that was placed. `kept_s` is the work of the present step that a
    checkpoint has kept. `fence` numbers the placements: an end that was foreseen for an earlier one
    is void. `deferred_for` is why it waits for admission, where it does. `held` is what the tenant's budgets hold for it, by dimension.
    """

    job: SimJob
    seq: int
    pool: str
    core: Job
    paced: Job
    """The same named by whose runs its own are likened to: the user's of the workflow, if known."""
    stage: Stage = Stage.TIED
    deferred_for: Reason | None = None
    own_cost: bool = False
    paused: bool = False
    is_counted: bool = False
    in_review: bool = False
    open_after: int = 0
    step: int = 0
    failed: int = 0
    tries: int = 0
    placements: int = 0
    preemptions: int = 0
    fence: int = 0
    kept_s: float = 0.0
    began: float = 0.0
    started_at: float | None = None
    ran_s: float = 0.0
    worked_s: float = 0.0
    placement: Placement | None = None
    shared_in: int = 0
    """In which time of a common backlog the placement's charge was counted; 0: in none."""
    estimate: Estimate | None = None
    guess: Guess | None = None
    held: dict[str, Decimal] = field(default_factory=dict)
    incurred: Decimal = ZERO
    wasted: Decimal = ZERO

    @property
    def step_s(self) -> float:
        """How long the present step takes in all."""
        return self.job.duration / self.job.steps

    @property
    def is_last_step(self) -> bool:
        """Whether the work is done with the present step."""
        return self.step + 1 >= self.job.steps

    def left_s(self) -> float:
        """Return how long the next placement takes if nothing happens to it."""
        if self.in_review:
            return self.job.review_s
        return max(0.0, self.step_s - self.kept_s)

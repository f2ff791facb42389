"""The explanation of one job: every check in the order in which it is made, and what would help.

Checks are made until one speaks against the job; those behind it are not reached. For a job that
runs or has ended they are past: it went through them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from scheduling.core.policy.explain import Check, Status, Walked, walked
from scheduling.core.states import JobState
from scheduling.selectors.explanation.admission import ADMISSION, admission, readmission
from scheduling.selectors.explanation.capacity import CHECKS, capacity
from scheduling.selectors.explanation.forward import forward
from scheduling.selectors.explanation.order import order, pause, retry
from scheduling.selectors.explanation.running import end, run
from scheduling.selectors.explanation.scene import Finding, Scene, Told

_LIVE = (JobState.DEFERRED, JobState.DENIED, JobState.QUEUED, JobState.WAITING)
_NOT_REACHED = "Not reached: an earlier check stands in the way."


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job stands where it stands: the check that decides, all checks, and levers."""

    reason: str
    sentence: str
    checks: tuple[Finding, ...]
    forward: tuple[Told, ...]


@dataclass(frozen=True)
class _Once:
    """The walk over the order as far as the job, made once, when the first check asks for it."""

    scene: Scene

    @cached_property
    def found(self) -> Walked:
        """What the walk says; made on a copy, for it places what may start."""
        state = self.scene.state
        return walked(state.first(len(state.order)), self.scene.now, self.scene.core)


def explain(scene: Scene) -> Explanation:
    """Return the explanation of the scene's job."""
    if scene.job.state not in _LIVE:
        checks = (*_past(scene), run(scene), end(scene))
        spoke = next(one for one in reversed(checks) if one.reason is not None)
        return Explanation(
            reason=spoke.reason or scene.job.reason,
            sentence=spoke.sentence,
            checks=checks,
            forward=(),
        )
    once = _Once(scene)
    checks = tuple(_until_one_speaks(_asked(scene, once)))
    spoke = next(one for one in checks if one.reason is not None)
    within = spoke.check in CHECKS and spoke.check is not Check.RUN
    return Explanation(
        reason=spoke.reason or scene.job.reason,
        sentence=spoke.sentence,
        checks=checks,
        forward=tuple(forward(scene, spoke, once.found if within else None)),
    )


def _asked(scene: Scene, once: _Once) -> Iterator[tuple[Check, Callable[[], Finding]]]:
    """Yield the checks of a job that has not started, in their order."""
    for check in ADMISSION:
        yield check, partial(admission, scene, check)
    yield Check.READMISSION, partial(readmission, scene)
    yield Check.RETRY, partial(retry, scene)
    yield Check.PAUSE, partial(pause, scene)
    yield Check.ORDER, partial(order, scene)
    for check in CHECKS:
        yield check, partial(_capacity, scene, check, once)
    yield Check.END, partial(end, scene)


def _capacity(scene: Scene, check: Check, once: _Once) -> Finding:
    return capacity(scene, check, once.found)


def _until_one_speaks(asked: Iterator[tuple[Check, Callable[[], Finding]]]) -> Iterator[Finding]:
    for _, ask in asked:
        found = ask()
        yield found
        if found.status in (Status.WAITS, Status.FAILS):
            break
    for check, _ in asked:
        yield _silent(check, Status.NOT_REACHED, _NOT_REACHED)


def _past(scene: Scene) -> Iterator[Finding]:
    """Yield the checks that a job went through: of admission always, the others where it ran."""
    for check in (*ADMISSION, Check.READMISSION):
        yield _silent(check, Status.PASSED, "It passed when it was admitted.")
    placed = Status.PASSED if scene.job.fence else Status.NOT_REACHED
    said = "It passed when it was placed." if scene.job.fence else "It was never placed."
    for check in (Check.RETRY, Check.PAUSE, Check.ORDER, *CHECKS[:-1]):
        yield _silent(check, placed, said)


def _silent(check: Check, status: Status, sentence: str) -> Finding:
    return Finding(check=check, status=status, sentence=sentence, facts={})

"""Aging: a job that waits long enough stands in a higher class.

A waiting job climbs one rung for each full `age_after`, counted from the later of its submission
and the last placement of its tenant from its own class (wherever the job placed then stood). The
rungs of a class are the fair classes above it, up to its `ages_to`; a fifo class is no rung. Of
each tenant and own class only the `age_limit` oldest startable jobs climb. A placement puts the
clock back for all of them at once, so the tenant's others fall back to their own class: aging
helps a tenant that is not served at all and never outweighs the fair shares of those that are.

The class in which a job stands follows the clock when `Order.advance` is called, and a placement.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import islice
from math import inf

from scheduling.core.order.lines import Line
from scheduling.core.order.memory import Share
from scheduling.core.types import ClassRule, Job


def rungs_of(classes: Sequence[ClassRule]) -> dict[str, tuple[str, ...]]:
    """For each class that ages: the classes it climbs through, nearest first.

    Raises ValueError for a name that is used twice and for an `ages_to` that is not a higher fair
    class.
    """
    names = [rule.name for rule in classes]
    if len(set(names)) < len(names):
        raise ValueError("two classes of the table have one name; give each its own")
    rungs: dict[str, tuple[str, ...]] = {}
    higher: list[str] = []
    for rule in classes:
        if rule.ages_to is not None:
            if rule.ages_to not in higher:
                msg = f"class {rule.name!r} ages to {rule.ages_to!r}; name a higher, fair class"
                raise ValueError(msg)
            rungs[rule.name] = tuple(reversed(higher[higher.index(rule.ages_to) :]))
        if not rule.fifo:
            higher.append(rule.name)
    return rungs


class Climb:
    """The startable jobs of one tenant and own class by age, and those that have climbed."""

    __slots__ = ("aged", "line", "rungs", "scheduled", "share")

    def __init__(self, own_class: str, share: Share, rungs: tuple[str, ...]) -> None:
        self.line = Line(own_class)
        self.share = share
        self.rungs = rungs
        self.aged: dict[str, tuple[Job, str]] = {}
        self.scheduled = inf

    def since(self, job: Job) -> float:
        """When the job's waiting time begins to count."""
        last = self.share.last_placed_at
        return job.submitted_at if last is None else max(job.submitted_at, last)


class Aging:
    """All climbs, and a heap of the times at which something may change."""

    __slots__ = ("_after", "_limit", "_looks", "_times")

    def __init__(self, *, age_after: float, age_limit: int) -> None:
        self._after = age_after
        self._limit = age_limit
        self._looks = 0
        self._times: list[tuple[float, int, Climb]] = []

    def stir(self, climb: Climb, job: Job | None = None) -> None:
        """The climb has changed, by `job` coming in or (None) by some job going out.

        While nobody has climbed, only the job itself can be due sooner than what is planned.
        """
        if climb.aged:
            self._look(climb, -inf)
        elif job is not None:
            self._look(climb, climb.since(job) + self._after)

    def fall_back(self, climb: Climb, placed: Job) -> list[tuple[Job, str]]:
        """A placement puts the climb's clock back: the moves of all who had climbed but it."""
        self.stir(climb)
        own = climb.line.class_name
        moves = [(job, own) for job, _ in climb.aged.values() if job.id != placed.id]
        climb.aged.clear()
        return moves

    def _look(self, climb: Climb, due: float) -> None:
        if due < climb.scheduled:
            climb.scheduled = due
            self._looks += 1
            heappush(self._times, (due, self._looks, climb))

    def due_at(self) -> float:
        """When somebody may climb next; infinity: nobody will as things stand."""
        return self._times[0][0] if self._times else inf

    def moves(self, now: float) -> list[tuple[Job, str]]:
        """Each job that must stand in another class at `now`, with that class."""
        moves: list[tuple[Job, str]] = []
        while self._times and self._times[0][0] <= now:
            due, _, climb = heappop(self._times)
            if due == climb.scheduled:
                moves += self._climb(climb, now)
        return moves

    def _climb(self, climb: Climb, now: float) -> list[tuple[Job, str]]:
        """Set who has climbed at `now`, and when to look again."""
        climb.scheduled = inf
        due = self._oldest_due(climb)
        if due > now and not climb.aged:
            self._look(climb, due)
            return []
        aged: dict[str, tuple[Job, str]] = {}
        for job, _ in islice(climb.line.walk(), self._limit):
            level, due = self._level(climb.since(job), now, len(climb.rungs))
            self._look(climb, due)
            if not level:
                break
            aged[job.id] = (job, climb.rungs[level - 1])
        own = climb.line.class_name
        moves = [(job, own) for key, (job, _) in climb.aged.items() if key not in aged]
        moves += [move for key, move in aged.items() if climb.aged.get(key) != move]
        climb.aged = aged
        return moves

    def _oldest_due(self, climb: Climb) -> float:
        """When the first of those who have not climbed does; infinity: there is none."""
        oldest = climb.line.first()
        return inf if oldest is None else climb.since(oldest) + self._after

    def _level(self, since: float, now: float, top: int) -> tuple[int, float]:
        """How many rungs a job has climbed at `now`, and when it climbs the next."""
        for level in range(top):
            due = since + (level + 1) * self._after
            if due > now:
                return level, due
        return top, inf

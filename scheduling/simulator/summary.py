"""What a run comes to: waits, shares, fairness and slowdown, counted while it goes.

Jobs that have ended are forgotten but for their numbers. A wait is the time from submission to the
end in which nothing of the job ran and nobody reviewed it. Bounded slowdown is max(1, (end - submission) / max(run
time, 10 s)) of the jobs that were done (Feitelson et al. 1997); utilisation the unit-seconds in use
over those of the budgets, from second 0 to the last end. What runs on where a run is cut off ends
there for these numbers, and counts as far as it came.

Shares and Jain's index (Jain, Chiu and Hawe 1984) are in the policy's charge, over the time in which
all tenants that ever submit are backlogged; a tenant is so while a job of its stands in the order and
it is not held. A tenant that comes anew ends all such time before it, so the counting begins again
with it. The correction of a charge counts where the charge did, whoever is backlogged by then. Was
there no such time, as in most traces, shares and index are those of the whole run; `jain_over` says
which it was: backlogged or run.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from scheduling.simulator.runs import Run

TAU_S = 10.0
"""The shortest run time that a slowdown is measured against."""


@dataclass(slots=True)
class Group:
    """The jobs of one tenant, workflow or class."""

    jobs: int = 0
    done: int = 0
    waits: "array[float]" = field(default_factory=lambda: array("d"))

    def told(self) -> dict[str, Any]:
        """Return the counts, and the waits of what was done."""
        waits = sorted(self.waits)
        return {
            "jobs": self.jobs,
            "done": self.done,
            "mean_wait_s": _rounded(sum(waits) / len(waits)) if waits else None,
            "p95_wait_s": _rounded(waits[ceil(0.95 * len(waits)) - 1]) if waits else None,
        }


@dataclass(slots=True)
class Service:
    """What a tenant has got: cost-seconds, and charge while all were backlogged and in all."""

    waiting: int = 0
    held: bool = False
    served: float = 0.0
    shared: int = 0
    charged: int = 0


class Tally:
    """The numbers of a run so far."""

    def __init__(self, held: Iterable[str]) -> None:
        """Start at second 0 with some tenants held."""
        self.tenants: dict[str, Group] = {}
        self.workflows: dict[str, Group] = {}
        self.classes: dict[str, Group] = {}
        self.service: dict[str, Service] = {}
        self._held = set(held)
        self._backlogged = 0
        self._common = 0
        self._units: dict[str, int] = {}
        self._dials: list[tuple[float, int]] = []
        self._slowdowns = 0.0
        self._slowest = 1.0
        self._done = 0
        self.used_s = 0.0
        self.ended_at = 0.0

    # --- jobs -----------------------------------------------------------------------------

    def arrived(self, run: Run) -> None:
        """Count a job that was submitted."""
        tenant = run.job.tenant
        if tenant not in self.service:
            self._begin_anew(tenant)
        for group in self._groups(run):
            group.jobs += 1

    def _begin_anew(self, tenant: str) -> None:
        for one in self.service.values():
            one.shared = 0
        self._common += 1
        self.service[tenant] = Service(held=tenant in self._held)

    def _groups(self, run: Run) -> tuple[Group, ...]:
        job = run.job
        mine = (
            _group(self.tenants, job.tenant),
            _group(self.classes, run.core.class_name),
        )
        if not job.workflow:
            return mine
        return *mine, _group(self.workflows, run.core.workflow)

    def moved(self, before: str, after: str) -> None:
        """Count a job that was given another class in that."""
        _group(self.classes, before).jobs -= 1
        _group(self.classes, after).jobs += 1

    def done(self, run: Run, now: float) -> float:
        """Count a job that is done; return how long it waited (seconds)."""
        flow_s = now - run.job.at
        wait_s = max(0.0, flow_s - run.ran_s)
        for group in self._groups(run):
            group.done += 1
            group.waits.append(wait_s)
        slowdown = max(1.0, flow_s / max(run.ran_s, TAU_S))
        self._slowdowns += slowdown
        self._slowest = max(self._slowest, slowdown)
        self._done += 1
        return wait_s

    # --- backlog and service --------------------------------------------------------------

    def waits(self, tenant: str, count: int) -> None:
        """Count so many more jobs of a tenant in the order."""
        one = self.service[tenant]
        was = one.waiting > 0 and not one.held
        one.waiting += count
        self._backlogged += (one.waiting > 0 and not one.held) - was

    def hold(self, tenant: str, *, held: bool) -> None:
        """Note that a tenant is held, or let go."""
        (self._held.add if held else self._held.discard)(tenant)
        one = self.service.get(tenant)
        if one is not None and one.held != held:
            one.held = held
            self._backlogged += (1 if one.waiting else 0) * (-1 if held else 1)

    def charged(self, tenant: str, charge: int) -> int:
        """Count the charge of a placement, before the job leaves the order; return the number of the
        common backlog in which it counts, 0: in none."""
        one = self.service[tenant]
        one.charged += charge
        if self._backlogged < len(self.service):
            return 0
        one.shared += charge
        return self._common

    def corrected(self, tenant: str, delta: int, shared_in: int) -> None:
        """Add to a charge that was counted in that common backlog."""
        one = self.service[tenant]
        one.charged += delta
        if shared_in == self._common:
            one.shared += delta

    def worked(self, tenant: str, cost: int, seconds: float, now: float) -> None:
        """Count what a try has held."""
        self.service[tenant].served += cost * seconds
        self.used_s += cost * seconds
        self.ended_at = now

    # --- units ----------------------------------------------------------------------------

    def set_units(self, pool: str, units: int, now: float) -> None:
        """Note a pool's budget from now on."""
        self._units[pool] = units
        self._dials.append((now, sum(self._units.values())))

    def offered_s(self) -> float:
        """Return the unit-seconds that the budgets have offered by the last end."""
        ends = [*(at for at, _ in self._dials[1:]), self.ended_at]
        return sum(
            units * max(0.0, min(end, self.ended_at) - at)
            for (at, units), end in zip(self._dials, ends, strict=True)
        )

    # --- outcome --------------------------------------------------------------------------

    def told(self, weights: dict[str, int]) -> dict[str, Any]:
        """Return the numbers of the summary that jobs make."""
        offered = self.offered_s()
        return {
            "tenants": self._tenants(weights),
            "workflows": {name: one.told() for name, one in sorted(self.workflows.items())},
            "classes": {name: one.told() for name, one in self.classes.items()},
            "makespan_s": _rounded(self.ended_at),
            "utilisation": _rounded(self.used_s / offered) if offered else None,
            "jain": self._jain(weights),
            "jain_over": "backlogged" if self._is_common() else "run",
            "mean_bounded_slowdown": _rounded(self._slowdowns / self._done) if self._done else None,
            "max_bounded_slowdown": _rounded(self._slowest) if self._done else None,
        }

    def _got(self) -> dict[str, int]:
        """Return the charge of each tenant that shares and index go by."""
        common = self._is_common()
        return {name: one.shared if common else one.charged for name, one in self.service.items()}

    def _is_common(self) -> bool:
        return any(one.shared for one in self.service.values())

    def _tenants(self, weights: dict[str, int]) -> dict[str, Any]:
        got = self._got()
        total, told = sum(got.values()), {}
        for name, group in self.tenants.items():
            share = got[name] / total if total else 0.0
            told[name] = group.told() | {
                "served": _rounded(self.service[name].served),
                "share": _rounded(share),
                "share_per_weight": _rounded(share / weights.get(name, 1)),
            }
        return told

    def _jain(self, weights: dict[str, int]) -> float | None:
        got = [charge / weights.get(name, 1) for name, charge in self._got().items()]
        squares = sum(one * one for one in got)
        return _rounded(sum(got) ** 2 / (len(got) * squares)) if squares else None


def _group(groups: dict[str, Group], name: str) -> Group:
    found = groups.get(name)
    if found is None:
        found = groups[name] = Group()
    return found


def _rounded(number: float) -> float:
    return round(number, 6)

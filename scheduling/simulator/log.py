"""The event log of a run: numbered, in time order, told to whoever takes it.

Every event names its number, its time (seconds from the beginning, to the microsecond), what
happened and the policy in force; those of a job name it and its tenant. `facts` are the plain values
that its reason speaks of.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from scheduling.core.types import Reason
from scheduling.simulator.runs import Run

ENDS = frozenset({"finished", "failed", "canceled", "expired", "denied", "shed"})
"""The events with which a job ends."""
Take: TypeAlias = Callable[[dict[str, Any]], None]


class Log:
    """Hands events on and counts them by name."""

    __slots__ = ("_policy", "_seq", "_take", "counts", "now")

    def __init__(self, take: Take, policy: int) -> None:
        """Tell the events to `take`, made under the policy of that number."""
        self._take = take
        self._policy = policy
        self._seq = 0
        self.counts: defaultdict[str, int] = defaultdict(int)
        self.now = 0.0

    def at(self, now: float) -> None:
        """Let the events that follow happen at `now`."""
        self.now = round(now, 6)

    def job(self, event: str, run: Run, reason: Reason, more: Mapping[str, Any]) -> None:
        """Tell what happened to a job."""
        self._seq += 1
        self.counts[event] += 1
        self._take(
            {
                "seq": self._seq,
                "t": self.now,
                "event": event,
                "job": run.job.id,
                "tenant": run.job.tenant,
                "reason": reason,
                "policy": self._policy,
                **more,
            }
        )

    def other(self, event: str, more: Mapping[str, Any]) -> None:
        """Tell what happened to a tenant, an executor or the settings."""
        self._seq += 1
        self.counts[event] += 1
        self._take(
            {"seq": self._seq, "t": self.now, "event": event, "policy": self._policy, **more}
        )

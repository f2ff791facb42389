"""The decision log of a run: what was decided about whom and why, kept whole while it is short.

Of a long run the first decisions are kept, and the first of every (event, reason) pair however late
it comes, so that each kind of decision can be read in words; all of them are counted.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from scheduling.simulator.sentences import Event, clock, sentence

DECISIVE = frozenset({
    "queued", "deferred", "denied", "shed", "preempted", "requeued", "retried", "fallback", "lost",
    "failed", "held", "resumed", "canceled", "expired", "reviewed", "circuit_opened",
    "circuit_closed", "budget_crossed", "policy",
})  # fmt: skip
"""The events that the log tells; admissions, placements and ends are in the pictures."""
KEPT = 600
KEPT_OF_EACH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One decision as it is read."""

    seq: int
    at: str
    event: str
    reason: str
    words: str


class Decisions:
    """The log as it grows."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.counts: Counter[tuple[str, str]] = Counter()
        self._kept: list[dict[str, Any]] = []

    def take(self, event: Event) -> None:
        """Count a decision, and keep it while there is room or it is among the first of its kind."""
        name = event["event"]
        if name not in DECISIVE and event.get("reason") != "backfilled":
            return
        pair = (name, str(event.get("reason") or ""))
        self.counts[pair] += 1
        if len(self._kept) < KEPT or self.counts[pair] <= KEPT_OF_EACH:
            self._kept.append(dict(event))

    @property
    def total(self) -> int:
        """How many decisions there were."""
        return self.counts.total()

    def lines(self) -> list[Line]:
        """Return the kept decisions in the order of the log, in words."""
        return [
            Line(
                seq=event["seq"],
                at=clock(event["t"]),
                event=event["event"],
                reason=str(event.get("reason") or ""),
                words=sentence(event),
            )
            for event in self._kept
        ]

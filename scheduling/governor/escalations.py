"""Which placements rest on an escalation of a limit: those that its base would have kept waiting.

What was in use before a placement is not kept by the cycle. It is counted back here from what is in
use after the batch, the last placement first, and only while something is raised.
"""

import json
from collections.abc import Sequence

from scheduling.core.policy.raises import cap_needs, rate_needs
from scheduling.core.policy.windows import rate_keys
from scheduling.core.types import LimitKey, Placement
from scheduling.governor.book import Book

NONE = "{}"


def escalations_told(book: Book, placements: Sequence[Placement], pool: str) -> list[str]:
    """Return, for each placement of a cycle, the part of its event that names what let it in.

    It is JSON: `{"escalations": [ids]}`, or `{}`. The state must be as the cycle left it.
    """
    if not book.config.raised:
        return [NONE] * len(placements)
    found = _Back(book, placements, pool)
    told = [found.before(placement) for placement in reversed(placements)]
    return [json.dumps({"escalations": ids}) if ids else NONE for ids in reversed(told)]


class _Back:
    """What is in use of the raised keys, taken back placement by placement."""

    def __init__(self, book: Book, placements: Sequence[Placement], pool: str) -> None:
        """Start after the last placement of the batch."""
        self._config, self._state = book.config, book.states[pool]
        limits = self._state.limits
        now = self._state.live[placements[0].spot.job.id].started_at
        keys = {one.key for one in self._config.raised}
        self._running = {
            key: self._state.busy.get(key[1], 0)
            if key[0] == "executor"
            else limits.counts.get(key, 0)
            for key in keys
        }
        self._used = {key: limits.windows[key].used(now) for key in keys & limits.windows.keys()}

    def before(self, placement: Placement) -> list[str]:
        """Take a placement back; return the ids of the raises that it needed."""
        job = placement.spot.job
        held = self._held(placement)
        spent = rate_keys(job.tenant, self._state.executors[placement.executor].provider)
        for key in self._running.keys() & held:
            self._running[key] -= 1
        for key in self._used.keys() & set(spent):
            requests, tokens = self._used[key]
            self._used[key] = requests - 1, tokens - job.tokens
        caps, rates = self._config.base_caps, self._config.base_rates
        return [
            one.id
            for one in self._config.raised
            if (one.key in held and cap_needs(one, caps, self._running[one.key]))
            or (
                one.key in spent
                and one.key in self._used
                and rate_needs(one, rates, self._used[one.key], job.tokens)
            )
        ]

    def _held(self, placement: Placement) -> set[LimitKey]:
        """Return the keys that the placement counts under, its executor's slots among them."""
        live = self._state.live[placement.spot.job.id]
        return {*live.limits, *live.shared, ("executor", placement.executor)}

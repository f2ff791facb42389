"""Running caps and live counts per limit key, across all pools that share them.

A cap bounds how many jobs of one tenant, workspace, workflow, user, provider window or concurrency
key are live at once. When a key's count reaches its cap, its jobs leave the lines of every joined
order at once (so that they are not counted in anybody's turn); when it falls below, they come back
and their line is lifted. Keys of shared limits stand in no line and are tested in the walk.

A key without a cap of its own takes its scope's default from its first live job on: with none live
it could not be full, and the users of a tenant are nowhere listed.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from scheduling.core.order.order import Order
from scheduling.core.types import LimitKey

LIMIT = "limit"
"""Why an order blocks a key whose cap is reached."""
NO_DEFAULTS: Mapping[str, int] = MappingProxyType({})


class Limits:
    """Counts live jobs per key and keeps the joined orders blocked where a cap is reached."""

    def __init__(
        self,
        caps: Mapping[LimitKey, int],
        counts: Mapping[LimitKey, int] = {},
        *,
        defaults: Mapping[str, int] = NO_DEFAULTS,
    ) -> None:
        """Start with `caps` (0 lets nothing run) and the `counts` of jobs that are live already.

        `defaults` are caps (>= 1) by scope ("user" ...) for the keys that have none of their own.
        """
        self.caps = dict(caps)
        self.counts = dict(counts)
        self._defaults = defaults
        self._default_counted()
        self._full = {key for key in self.caps if self._is_full(key)}
        self._orders: list[Order] = []

    def join(self, order: Order) -> None:
        """Block the full keys in `order`, now and from now on."""
        self._orders.append(order)
        for key in sorted(self._full):
            order.block(key, LIMIT)

    def copy(self) -> "Limits":
        """Return an independent book with the same caps and counts and no orders."""
        return Limits(self.caps, self.counts, defaults=self._defaults)

    def take(self, keys: Iterable[LimitKey]) -> bool:
        """Count one more live job under `keys`; return whether one of them became full."""
        became_full = False
        for key in keys:
            self.counts[key] = self.counts.get(key, 0) + 1
            if key not in self.caps and key[0] in self._defaults:
                self.caps[key] = self._defaults[key[0]]
            became_full |= self._refresh(key)
        return became_full

    def give(self, keys: Iterable[LimitKey]) -> None:
        """Count one live job less under `keys`."""
        for key in keys:
            left = self.counts[key] - 1
            if left:
                self.counts[key] = left
            else:
                del self.counts[key]
            self._refresh(key)

    def set_caps(self, caps: Mapping[LimitKey, int]) -> None:
        """Replace all caps; what runs above a new cap runs on."""
        changed = sorted(set(self.caps) | set(caps))
        self.caps.clear()
        self.caps.update(caps)
        self._default_counted()
        for key in changed:
            self._refresh(key)

    def _default_counted(self) -> None:
        """Give the keys that have live jobs and no cap their scope's default."""
        for key in self.counts if self._defaults else ():
            if key[0] in self._defaults:
                self.caps.setdefault(key, self._defaults[key[0]])

    def _is_full(self, key: LimitKey) -> bool:
        return key in self.caps and self.counts.get(key, 0) >= self.caps[key]

    def _refresh(self, key: LimitKey) -> bool:
        """Bring the orders in line with the key's count; return whether it became full."""
        full = self._is_full(key)
        if full == (key in self._full):
            return False
        if full:
            self._full.add(key)
            for order in self._orders:
                order.block(key, LIMIT)
        else:
            self._full.remove(key)
            for order in self._orders:
                order.unblock(key, LIMIT)
        return full

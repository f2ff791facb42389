"""Running caps and live counts per limit key, across all pools that share them.

A cap bounds how many jobs of one tenant, workspace, workflow, user, provider window or concurrency
key are live at once. When a key's count reaches its cap, its jobs leave the lines of every joined
order at once (so that they are not counted in anybody's turn); when it falls below, they come back
and their line is lifted. Keys of shared limits stand in no line and are tested in the walk.

A key without a cap of its own takes its scope's default while it has live jobs: with none live it
could not be full, and the users of a tenant and the concurrency keys are nowhere listed. A
concurrency key has one holder at a time unless a cap says otherwise (`KEY_CAP`).

Rate windows (`policy.windows`) stand beside the caps: of tenants, whose jobs leave the lines of
every joined order until the window has room, and of providers, which the walk tests. So do the
providers' retry budgets (`core.retry`), once their settings are given.
"""

from collections.abc import Iterable, Mapping
from math import inf
from types import MappingProxyType

from scheduling.core.order.order import Order
from scheduling.core.policy.windows import Dispatched, Rate, Window
from scheduling.core.retry import RetryBudget, RetrySettings
from scheduling.core.types import LimitKey

LIMIT = "limit"
"""Why an order blocks a key whose cap is reached."""
RATE = "rate"
"""Why an order blocks a key whose rate window has no room."""
KEY_CAP: Mapping[str, int] = MappingProxyType({"key": 1})
"""The default cap of a concurrency key: what it names is held by one job at a time."""
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
        self.windows: dict[LimitKey, Window] = {}
        self.retries: dict[str, RetryBudget] = {}
        self._retry_settings: RetrySettings | None = None
        self._shut: dict[LimitKey, float] = {}
        self._by_default: set[LimitKey] = set()
        self._default_counted()
        self._full = {key for key in self.caps if self._is_full(key)}
        self._orders: list[Order] = []
        self._note_providers()

    def join(self, order: Order) -> None:
        """Block the full keys in `order`, now and from now on."""
        self._orders.append(order)
        for key in sorted(self._full):
            order.block(key, LIMIT)
        for key in sorted(self._shut):
            order.block(key, RATE)

    def copy(self) -> "Limits":
        """Return an independent book with the same caps, counts, windows and retry budgets, and no
        orders."""
        caps = {key: cap for key, cap in self.caps.items() if key not in self._by_default}
        copy = Limits(caps, self.counts, defaults=self._defaults)
        copy.windows = {key: window.copy() for key, window in self.windows.items()}
        copy._shut = dict(self._shut)
        copy.retries = {provider: budget.copy() for provider, budget in self.retries.items()}
        copy._retry_settings = self._retry_settings
        copy._note_providers()
        return copy

    def is_any_full(self, keys: Iterable[LimitKey]) -> bool:
        """Tell whether the cap of one of the keys is reached."""
        return bool(self._full) and not self._full.isdisjoint(keys)

    def cap(self, key: LimitKey) -> int | None:
        """Return the cap of a key, its scope's default where it has none of its own."""
        return self.caps.get(key, self._defaults.get(key[0]))

    def take(self, keys: Iterable[LimitKey]) -> bool:
        """Count one more live job under `keys`; return whether one of them became full."""
        became_full = False
        for key in keys:
            self.counts[key] = self.counts.get(key, 0) + 1
            if key[0] in self._defaults:
                self._default(key)
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
                if key in self._by_default:
                    self._by_default.remove(key)
                    del self.caps[key]
            self._refresh(key)

    def set_caps(self, caps: Mapping[LimitKey, int]) -> None:
        """Replace all caps; what runs above a new cap runs on."""
        changed = sorted(set(self.caps) | set(caps))
        self.caps.clear()
        self.caps.update(caps)
        self._by_default.clear()
        self._default_counted()
        self._note_providers()
        for key in changed:
            self._refresh(key)

    # --- rate windows ---------------------------------------------------------------------

    def set_rates(self, rates: Mapping[LimitKey, Rate], recent: Iterable[Dispatched] = ()) -> None:
        """Replace all rates; `recent` is what was dispatched within the span, the oldest first."""
        self.windows = {key: Window(rate) for key, rate in rates.items()}
        for one in recent:
            self.spend(one.limit_keys(), one.tokens, one.at)
        self._note_providers()
        self._open(list(self._shut))

    def drop_windows(self) -> None:
        """Forget all windows and retry budgets; what is shut stays out of its lines."""
        self.windows, self._shut = {}, {}
        self.retries, self._retry_settings = {}, None
        self._note_providers()

    def spend(self, keys: Iterable[LimitKey], tokens: int, now: float) -> None:
        """Count a dispatch in the windows of its keys."""
        for key in keys if self.windows else ():
            if key in self.windows:
                self.windows[key].add(now, tokens)

    def take_back(self, keys: Iterable[LimitKey], tokens: int, at: float) -> None:
        """Count a dispatch of the time `at` no more: it has not come about."""
        for key in keys if self.windows else ():
            if key in self.windows:
                self.windows[key].take_back(at, tokens)

    def shut(self, key: LimitKey, tokens: int, now: float) -> None:
        """Keep the jobs of an own key out of all lines until its window has room for `tokens`."""
        self._shut[key] = self.windows[key].opens_at(tokens, now)
        for order in self._orders:
            order.block(key, RATE)

    def advance(self, now: float) -> None:
        """Let those into their lines again whose windows have room by `now`."""
        if self._shut:
            self._open([key for key, at in self._shut.items() if at <= now])

    def opens_at(self) -> float:
        """Return when the first window opens that is shut (epoch seconds); infinity: none is."""
        return min(self._shut.values()) if self._shut else inf

    def _open(self, keys: Iterable[LimitKey]) -> None:
        for key in keys:
            del self._shut[key]
            for order in self._orders:
                order.unblock(key, RATE)

    # --- retry budgets --------------------------------------------------------------------

    def set_retries(
        self, settings: RetrySettings, budgets: Mapping[str, RetryBudget] = MappingProxyType({})
    ) -> None:
        """Bound the retries of each provider from now on; `budgets` are those that have a past."""
        self._retry_settings = settings
        self.retries = {provider: RetryBudget(settings) for provider in self.retries} | dict(
            budgets
        )

    def meet(self, providers: Iterable[str]) -> None:
        """Give each provider a retry budget that has none, if retries are bounded."""
        if self._retry_settings is not None:
            for provider in providers:
                self.retries.setdefault(provider, RetryBudget(self._retry_settings))

    def succeeded(self, provider: str, at: float) -> None:
        """Count a success of a provider."""
        if provider in self.retries:
            self.retries[provider].succeeded(at)

    def retried(self, provider: str, at: float) -> None:
        """Count a retry that is placed at a provider."""
        if provider in self.retries:
            self.retries[provider].retried(at)

    # --- inside ---------------------------------------------------------------------------

    def _note_providers(self) -> None:
        keys = (*self.caps, *self.windows)
        self.by_provider = any(scope == "provider" for scope, _ in keys)

    def _default(self, key: LimitKey) -> None:
        if key not in self.caps:
            self.caps[key] = self._defaults[key[0]]
            self._by_default.add(key)

    def _default_counted(self) -> None:
        """Give the keys that have live jobs and no cap their scope's default."""
        for key in self.counts if self._defaults else ():
            if key[0] in self._defaults:
                self._default(key)

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

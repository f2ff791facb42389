"""What the work of a run costs, and whether the budgets let it in.

A try costs its tokens at its model's price and its capacity (cost x seconds) at the price of a
unit-second; a review costs its hours. A step uses its part of the job's tokens. What a try used that
came to nothing is wasted: of a failed one all, of one that was lost or made room its capacity alone,
for of tokens nobody knows; a checkpoint wastes nothing. What was shed avoided its estimate. What
nobody used of the pools is unallocated: the budget's unit-seconds less those in use, at their price.

A budget counts what was spent in the window that is current and all that is held: what is held when
a window ends is held in the next. Windows are those of UTC, and second 0 of a run is its epoch, a
Thursday (`billing.core.windows`). A model without a price is refused where the scenario prices any.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import TypeAlias
from zoneinfo import ZoneInfo

from billing.core.headroom import crossings, refusal
from billing.core.windows import EPOCH, window
from scheduling.core.admission import BudgetRefusal
from scheduling.simulator.runs import ZERO, Run
from scheduling.simulator.scenario import BudgetRule, Prices, Scenario, SimJob

Amounts: TypeAlias = Mapping[str, Decimal]
_UTC = ZoneInfo("UTC")
_MILLION = Decimal(1_000_000)
_HOUR_S = Decimal(3600)
_PLACES = Decimal("0.000000001")


@dataclass(slots=True)
class Balance:
    """A budget in its present window; amounts in its dimension's unit."""

    tenant: str
    rule: BudgetRule
    spent: Decimal = ZERO
    held: Decimal = ZERO
    starts_at: float = 0.0
    ends_at: float | None = None

    @property
    def dimension(self) -> str:
        """What it limits."""
        return self.rule.dimension

    @property
    def limit(self) -> Decimal:
        """The ceiling."""
        return self.rule.limit

    def turn_to(self, now: float) -> None:
        """Begin the window of `now`."""
        found = window(self.rule.window, _UTC, EPOCH + timedelta(seconds=now))
        self.spent = ZERO
        self.starts_at = (found.start - EPOCH).total_seconds()
        self.ends_at = None if found.end is None else (found.end - EPOCH).total_seconds()


@dataclass(frozen=True, slots=True)
class Crossed:
    """A share of a budget (percent) that was reached."""

    balance: Balance
    mark: int


@dataclass(slots=True)
class Amount:
    """The money of a run by what became of it (USD)."""

    reserved: Decimal = ZERO
    incurred: Decimal = ZERO
    wasted: Decimal = ZERO
    avoided: Decimal = ZERO
    unallocated: Decimal = ZERO

    def told(self) -> dict[str, str]:
        """Return the amounts as strings."""
        names = ("reserved", "incurred", "wasted", "avoided", "unallocated")
        return {name: plain(getattr(self, name)) for name in names}


@dataclass(slots=True)
class Purse:
    """The prices, and every tenant's budgets."""

    prices: Prices
    balances: dict[str, list[Balance]] = field(default_factory=dict)
    total: Amount = field(default_factory=Amount)
    is_free: bool = False

    @classmethod
    def of(cls, scenario: Scenario) -> "Purse":
        """Return the purse of a scenario at second 0."""
        purse = cls(scenario.prices)
        purse.is_free = scenario.prices == Prices()
        for tenant in scenario.tenants:
            mine = [Balance(tenant.name, rule) for rule in tenant.budgets]
            for balance in mine:
                balance.turn_to(0.0)
            if mine:
                purse.balances[tenant.name] = mine
        return purse

    # --- prices ---------------------------------------------------------------------------

    def unpriced(self, model: str) -> str:
        """Return the model if it has no price where models have, else nothing."""
        models = self.prices.models
        return model if model and models and model not in models else ""

    def tokens(self, job: SimJob, model: str) -> Decimal:
        """Return what the tokens of a job's work cost on a model."""
        price = self.prices.models.get(model)
        if price is None:
            return ZERO
        return (job.tokens_in * price.input + job.tokens_out * price.output) / _MILLION

    def capacity(self, cost: int, seconds: float) -> Decimal:
        """Return what it costs to hold `cost` units for so long."""
        if not self.prices.unit_second:
            return ZERO
        return self.prices.unit_second * cost * Decimal(str(round(seconds, 6)))

    def review(self, seconds: float) -> Decimal:
        """Return what so many seconds of a reviewer cost."""
        return self.prices.review_hour * Decimal(str(round(seconds, 6))) / _HOUR_S

    def estimate(self, run: Run, model: str) -> Decimal:
        """Return what a job should cost on a model, its review included."""
        if self.is_free:
            return ZERO
        work = self.tokens(run.job, model) + self.capacity(
            run.core.cost, run.core.expected_s * run.job.steps
        )
        return work + self.review(run.job.review_s)

    # --- budgets --------------------------------------------------------------------------

    def _mine(self, run: Run, now: float) -> list[Balance]:
        """Return the budgets of a job's tenant, each in the window of `now`."""
        mine = self.balances.get(run.job.tenant, [])
        for balance in mine:
            if balance.ends_at is not None and now >= balance.ends_at:
                balance.turn_to(now)
        return mine

    def refuse(self, run: Run, model: str, now: float) -> BudgetRefusal | None:
        """Hold what a job should take of its tenant's budgets, or say which has no room for it.

        What it holds already is given back for it.
        """
        mine = self._mine(run, now)
        if not mine:
            self._note(run, {"spend": self.estimate(run, model)})
            return None
        asked = self._asked(run, model)
        before = run.held
        self._move(mine, before, -1)
        tight = refusal(mine, asked)
        if tight is not None:
            self._move(mine, before, 1)
            return _refused(tight, asked[tight.dimension])
        self._move(mine, asked, 1)
        self._note(run, asked)
        return None

    def _note(self, run: Run, asked: dict[str, Decimal]) -> None:
        if self.is_free and len(asked) == 1:
            return
        self.total.reserved += asked["spend"] - run.held.get("spend", ZERO)
        run.held = asked

    def _asked(self, run: Run, model: str) -> dict[str, Decimal]:
        job = run.job
        return {
            "spend": self.estimate(run, model),
            "tokens": Decimal(job.tokens_in + job.tokens_out),
            "attempts": Decimal(1),
            "wall_seconds": Decimal(str(round(run.core.expected_s * job.steps, 6))),
            "review_minutes": Decimal(str(round(job.review_s / 60, 6))),
        }

    def release(self, run: Run) -> bool:
        """Give back what a job holds; tell whether a budget has more room by it."""
        held, run.held = run.held, {}
        if not held:
            return False
        self.total.reserved -= held["spend"]
        mine = self.balances.get(run.job.tenant)
        if mine is not None:
            self._move(mine, held, -1)
        return mine is not None

    def _move(self, mine: list[Balance], held: Amounts, sign: int) -> None:
        for balance in mine:
            balance.held += sign * held.get(balance.dimension, ZERO)

    def spend(self, run: Run, used: Amounts, now: float, *, wasted: bool) -> list[Crossed]:
        """Book what a try has used; return the marks of budgets that it reached.

        What was good work is no longer held.
        """
        amount = used["spend"]
        if wasted:
            run.wasted += amount
            self.total.wasted += amount
        else:
            run.incurred += amount
            self.total.incurred += amount
        mine = self._mine(run, now)
        if not wasted:
            self._use_up(run, used, mine)
        return [one for balance in mine for one in _spent(balance, used)]

    def _use_up(self, run: Run, used: Amounts, mine: list[Balance]) -> None:
        """Let good work take its part out of what the job holds."""
        if not run.held:
            return
        part = {name: min(held, used.get(name, ZERO)) for name, held in run.held.items()}
        run.held = {name: held - part[name] for name, held in run.held.items()}
        self.total.reserved -= part["spend"]
        self._move(mine, part, -1)


def _spent(balance: Balance, used: Amounts) -> Iterator[Crossed]:
    amount = used.get(balance.dimension)
    if not amount:
        return
    before, balance.spent = balance.spent, balance.spent + amount
    for mark in crossings(before=before, after=balance.spent, limit=balance.limit):
        yield Crossed(balance, mark)


def _refused(tight: Balance, estimate: Decimal) -> BudgetRefusal:
    return BudgetRefusal(
        scope=f"tenant {tight.tenant}",
        dimension=tight.dimension,
        limit=tight.limit,
        spent=tight.spent,
        held=tight.held,
        estimate=estimate,
        window_ends_at=tight.ends_at,
    )


def plain(amount: Decimal) -> str:
    """Return an amount as a string, to a billionth, without an exponent."""
    if not amount:
        return "0"
    rounded = f"{amount.quantize(_PLACES):f}"
    return rounded.rstrip("0").rstrip(".") or "0"

"""A policy tried on the live backlog, in a process that leads nothing.

Two memories are built from one reading of the rows, as a leader builds its own: one under the policy
in force, one under the other, just as it would be built anew when that one is published. Both are
forecast, and set side by side. Nothing is written, and the governor is not asked; what it learned in
its own process comes from its last published headers.

The run time of work that was never measured is what each policy says; the money that a job will
cost is what it has reserved.
"""

import gc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import redis

from billing.services.reserved import spend_reserved
from scheduling.core.eta.runs import Run, joined, run_of
from scheduling.core.eta.trial import WINDOW_S, Pair, compare
from scheduling.core.policy.document import policy_from_dict
from scheduling.core.policy.settings import Policy
from scheduling.core.policy.state import PoolState
from scheduling.governor.book import Book, given_seconds
from scheduling.governor.boot import book_of, kept_load
from scheduling.governor.config import Config, config_load
from scheduling.governor.durations import Durations
from scheduling.governor.glance import FRESH_S, take_slots
from scheduling.governor.trial_result import Names, changes, compared
from scheduling.models import PolicyTrial
from scheduling.snapshot import read_header

EXACT = 5_000
"""The jobs from the front that are fast-forwarded, as in the governor's own picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The version in force that a trial was set against, and the comparison as plain data."""

    against: int
    result: dict[str, Any]


def trial_play(trial: PolicyTrial, *, client: redis.Redis, now: float) -> Played:
    """Try a policy on the backlog as the rows have it at `now` (epoch seconds).

    Raises `InvalidPolicy`, and `PolicyVersion.DoesNotExist` when no policy is in force.
    """
    collects = gc.isenabled()
    gc.disable()  # millions of values that live to the end: walking them would find nothing
    try:
        return _played(trial, client, now)
    finally:
        if collects:
            gc.enable()


def _played(trial: PolicyTrial, client: redis.Redis, now: float) -> Played:
    kept = kept_load()  # before the settings, which then name all that the rows name
    active = _config(client, now)
    draft = replace(policy_from_dict(trial.body), number=trial.number)
    other = _under(draft, active, now)
    durations = Durations(active.policy.default_expected_s, given_seconds(active))
    durations.load()
    in_force = book_of(active, durations, kept, now)
    before = _runs(in_force, now)
    assumed = replace(durations, default=other.policy.default_expected_s)
    after = _runs(book_of(other, assumed, kept, now, like=in_force), now)
    pairs = {pool: (before[pool], after[pool]) for pool in before}
    names = Names.of(active, now)
    whole = (joined(list(before.values())), joined(list(after.values()))) if pairs else None
    spend = spend_reserved(_starting(whole, now)) if whole else {}
    weights = {tenant: facts.weight for tenant, facts in active.tenants.items()}

    def told(pair: Pair) -> dict[str, Any]:
        return compared(compare(pair, weights=weights, spend=spend), pair, names)

    pools = {active.pool_slugs[pool]: told(pair) for pool, pair in pairs.items()}
    alone = next(iter(pools.values())) if len(pools) == 1 else None
    result = {
        "changes": changes(active.policy, other.policy),
        "all": alone or (told(whole) if whole else None),
        "pools": pools,
    }
    return Played(against=active.policy.number, result=result)


def _config(client: redis.Redis, now: float) -> Config:
    config = config_load(now=now)
    for pool in config.pools:
        try:
            header = read_header(client, pool)
        except redis.RedisError:
            break
        if header is not None and now - header.at < FRESH_S:
            take_slots(config, header)
    return config


def _under(policy: Policy, active: Config, now: float) -> Config:
    """Return the settings under another policy: its classes, rules and caps; all else stays."""
    read = config_load(now=now, policy=policy)
    return replace(active, policy=read.policy, base_caps=read.base_caps, caps=read.caps)


def _runs(book: Book, now: float) -> dict[str, Run]:
    """Forecast every pool that anything waits or runs in."""
    measured = book.durations.measured()
    return {
        pool: _run(state, now, measured) for pool, state in book.states.items() if _is_used(state)
    }


def _run(state: PoolState, now: float, measured: Mapping[str, float]) -> Run:
    state.order.advance(now)
    return run_of(state, now, exact=EXACT, measured=measured)


def _is_used(state: PoolState) -> bool:
    return bool(len(state.order) or state.never_fits or state.live)


def _starting(pair: Pair, now: float) -> set[str]:
    """Return the ids of the jobs that start within the window in either run."""
    return {
        run.jobs[row].id
        for run in pair
        for row in np.flatnonzero(run.starts < now + WINDOW_S).tolist()
    }

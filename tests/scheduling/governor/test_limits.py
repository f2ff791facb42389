"""Limits and rates act on the backlog that is there, over all pools, and survive a restart."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.controls.limits import limit_set
from scheduling.models import Attempt, Limit, Pool
from scheduling.models.xact import CurrentXact
from scheduling.selectors.limits import limits_in_use, recent_dispatches
from tests.scheduling.factories import (
    WHO,
    asked,
    make_executor,
    make_policy,
    make_pool,
    make_tenant,
    submit,
    submit_all,
)
from tests.scheduling.governor.desk import Desk

MILLION = 1_000_000


def limit(scope: str, scope_id: Any, value: int | None, measure: str = "running") -> int:
    return limit_set(scope=scope, scope_id=str(scope_id), measure=measure, value=value, **WHO)


def requests(scope: str, scope_id: Any, value: int | None) -> int:
    return limit(scope, scope_id, value, "requests_a_minute")


def a_minute_later() -> None:
    """Let all dispatches be a minute older than they are."""
    for one in Attempt.objects.all():
        Attempt.objects.filter(id=one.id).update(
            dispatched_at=one.dispatched_at - timedelta(seconds=61)
        )


def test_a_global_limit_holds_over_all_pools(desk: Desk, pool: Pool) -> None:
    other = make_pool("other")
    make_executor(other)
    limit("global", "all", 3)
    submit(make_tenant("a", pool), 3)
    submit(make_tenant("b", other), 3)
    assert len(desk.turn()) == 3
    limit("global", "all", 5)
    assert len(desk.turn()) == 2
    limit("global", "all", None)
    assert len(desk.turn()) == 1


def test_a_pools_limit_leaves_other_pools_alone(desk: Desk, pool: Pool) -> None:
    other = make_pool("other")
    make_executor(other)
    limit("pool", pool.id, 1)
    submit(make_tenant("a", pool), 3)
    submit(make_tenant("b", other), 3)
    assert len(desk.turn()) == 4
    desk.finish()
    assert len(desk.turn()) == 1


def test_an_executors_limit_is_less_than_its_slots(desk: Desk, pool: Pool) -> None:
    executor = make_executor(pool, "main-sim", slots=4)
    limit("executor", executor.id, 2)
    submit(make_tenant("a", pool), 5)
    assert len(desk.turn()) == 2
    limit("executor", executor.id, 9)
    assert len(desk.turn()) == 2


def test_a_users_limit_is_above_the_policys_default(desk: Desk, pool: Pool) -> None:
    make_policy(default_caps={"user": 1})
    space = make_tenant("a", pool)
    limit("user", "ann", 2)
    for who in ("ann", "bob"):
        submit_all(space, [asked()] * 3, submitted_by=who)
    assert len(desk.turn()) == 3


def test_a_providers_limit_counts_what_runs_there_also_after_a_restart(
    desk: Desk, pool: Pool
) -> None:
    submit(make_tenant("a", pool), 4)
    limit("provider", "simulated", 2)
    assert len(desk.turn()) == 2
    desk.restart()
    assert desk.turn() == []
    assert desk.state(pool).limits.counts["provider", "simulated"] == 2
    desk.finish()
    assert len(desk.turn()) == 2


def test_a_concurrency_key_has_one_holder_at_a_time_over_all_tenants(
    desk: Desk, pool: Pool
) -> None:
    spaces = [make_tenant(slug, pool) for slug in ("a", "b")]
    jobs = [submit(space, 1, keys=["repo"])[0] for space in spaces]
    free = submit(spaces[1])[0]
    assert set(desk.turn()) == {str(jobs[0].id), str(free.id)}
    desk.restart()
    assert desk.turn() == []
    desk.finish(jobs=[jobs[0]])
    assert desk.turn() == [str(jobs[1].id)]


def test_a_limit_of_its_own_lets_a_key_have_more_holders(desk: Desk, pool: Pool) -> None:
    limit("key", "repo", 2)
    submit(make_tenant("a", pool), 4, keys=["repo"])
    assert len(desk.turn()) == 2


def test_a_tenants_rate_delays_its_own_jobs_alone_and_survives_a_restart(
    desk: Desk, pool: Pool
) -> None:
    a, b = make_tenant("a", pool), make_tenant("b", pool)
    requests("tenant", a.tenant_id, 2)
    mine, theirs = submit(a, 4), submit(b, 3)
    assert set(desk.turn()) == {str(job.id) for job in (*mine[:2], *theirs)}
    desk.finish()
    assert desk.turn() == []
    assert {why for _, why in desk.state(pool).order.why_blocked(str(mine[2].id))} == {"rate"}
    desk.restart()
    assert desk.turn() == []
    a_minute_later()
    desk.restart()
    assert desk.turn() == [str(job.id) for job in mine[2:]]


def test_a_providers_token_rate_holds_by_estimates_until_the_window_opens(
    desk: Desk, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit("provider", "simulated", 2 * MILLION, "tokens_a_minute")
    submit(make_tenant("a", pool), 3)
    began = time.time()
    assert len(desk.turn()) == 2
    assert began + 60 <= desk.leader.book.opens_at() <= time.time() + 60
    monkeypatch.setattr(type(desk.leader._clock), "next_in", lambda _: 100.0)
    monkeypatch.setattr("scheduling.governor.loop.now_s", lambda: began + 59.99)
    assert 0 < desk.leader.wait_s() <= time.time() - began + 0.011
    assert desk.turn() == []
    monkeypatch.setattr("scheduling.governor.loop.now_s", lambda: time.time() + 61)
    assert desk.leader.wait_s() == 0
    assert len(desk.turn()) == 1


def test_a_new_rate_counts_what_was_dispatched_before_it(desk: Desk, pool: Pool) -> None:
    a = make_tenant("a", pool)
    submit(a, 2)
    assert len(desk.turn()) == 2
    requests("tenant", a.tenant_id, 3)
    submit(a, 3)
    assert len(desk.turn()) == 1
    requests("tenant", a.tenant_id, 4)
    assert len(desk.turn()) == 1
    requests("tenant", a.tenant_id, None)
    assert len(desk.turn()) == 1


def test_a_placement_that_the_rows_refuse_is_not_counted(desk: Desk, pool: Pool) -> None:
    a = make_tenant("a", pool)
    requests("tenant", a.tenant_id, 1)
    first, second = submit(a, 2)
    desk.leader._take_up()
    first.paused, first.changed = True, CurrentXact()
    first.save(update_fields=["paused", "changed"])
    assert desk.turn() == [str(second.id)]


def test_what_is_in_use_is_derived_from_attempts(desk: Desk, pool: Pool) -> None:
    a = make_tenant("a", pool)
    executor = pool.executors.get()
    for scope, name in (
        ("global", "all"), ("pool", pool.id), ("executor", executor.id), ("provider", "simulated"),
        ("user", "7"), ("key", "repo"),
    ):  # fmt: skip
        limit(scope, name, 9)
    for scope, name in (("tenant", a.tenant_id), ("provider", "simulated")):
        limit(scope, name, 9, "requests_a_minute")
        limit(scope, name, 9 * MILLION, "tokens_a_minute")
    submit(a, 2)
    submit(a, 1, keys=["repo"])
    assert len(desk.turn()) == 3
    assert used() == {
        "running": {"global": 3, "pool": 3, "executor": 3, "provider": 3, "user": 3, "key": 1},
        "requests_a_minute": {"tenant": 3, "provider": 3},
        "tokens_a_minute": {"tenant": 3 * MILLION, "provider": 3 * MILLION},
    }
    desk.finish()
    a_minute_later()
    assert set(recent_dispatches()) == set()
    assert {value for one in used().values() for value in one.values()} == {0}


def used() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for one in limits_in_use(Limit.objects.all()):
        found.setdefault(one.limit.measure, {})[one.limit.scope] = one.in_use
    return found


def test_the_last_minute_is_read_by_the_ids_of_its_attempts(desk: Desk, pool: Pool) -> None:
    submit(make_tenant("a", pool), 2)
    desk.turn()
    found = recent_dispatches()
    assert [(one.provider, one.tokens) for one in found] == [("simulated", MILLION)] * 2
    now = timezone.now().timestamp()
    assert all(now - 60 < one.at <= now for one in found)

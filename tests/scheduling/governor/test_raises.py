"""A raise of a limit begins and ends by time alone; what it lets in says so."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from scheduling.controls.limits import limit_set
from scheduling.controls.raises import LimitIncrease, limit_raise, limit_raise_end
from scheduling.governor import loop
from scheduling.models import JobEvent, LimitRaise, Pool
from tenants.controls import control_number
from tenants.limits import tenant_limit
from tests.scheduling.factories import WHO, make_executor, make_policy, make_tenant, submit
from tests.scheduling.governor.desk import Desk

MINUTE = 60.0
MILLION = 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> "Clock":
    clock = Clock()
    monkeypatch.setattr(loop, "now_s", clock.now)
    return clock


class Clock:
    """The governor's clock, which a test puts forward."""

    def __init__(self) -> None:
        self.began = time.time()
        self.ahead = 0.0

    def now(self) -> float:
        return time.time() + self.ahead


def limit(scope: str, scope_id: Any, value: int | None, measure: str = "running") -> None:
    limit_set(scope=scope, scope_id=str(scope_id), measure=measure, value=value, **WHO)


def lift(
    scope: str,
    scope_id: Any,
    extra: int,
    measure: str = "running",
    *,
    begins_in: float = 0,
    ends_in: float = MINUTE,
) -> str:
    """Raise a limit from so many seconds from now on until so many; returns the raise's id."""
    now = time.time()
    at = [datetime.fromtimestamp(now + later, UTC) for later in (0, begins_in, ends_in)]
    increase = LimitIncrease(extra=extra, starts_at=at[1], ends_at=at[2])
    subject = (scope, str(scope_id), measure)
    return str(limit_raise(subject=subject, increase=increase, now=at[0], **WHO).id)


def named() -> dict[str, list[str]]:
    """The raises that each placed event names, by job."""
    events = JobEvent.objects.filter(event="placed")
    return {str(one.job_id): one.data.get("escalations", []) for one in events}


def test_a_raise_begins_and_ends_by_time_alone(desk: Desk, pool: Pool, clock: Clock) -> None:
    a = make_tenant("a", pool)
    tenant_limit(tenant_id=a.tenant_id, max_running=1, **WHO)
    lift("tenant", a.tenant_id, 2, begins_in=MINUTE, ends_in=2 * MINUTE)
    jobs = submit(a, 6)
    assert desk.turn() == [str(jobs[0].id)]
    number = control_number()
    clock.ahead = MINUTE + 1
    assert desk.turn() == [str(job.id) for job in jobs[1:3]]
    clock.ahead = 2 * MINUTE + 1
    assert desk.turn() == []
    assert len(desk.state(pool).live) == 3
    assert control_number() == number
    desk.finish()
    assert desk.turn() == [str(jobs[3].id)]


def test_the_governor_wakes_when_a_raise_begins_and_when_it_ends(
    desk: Desk, pool: Pool, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit("global", "all", 1)
    lift("global", "all", 1, begins_in=MINUTE, ends_in=2 * MINUTE)
    submit(make_tenant("a", pool), 4)
    desk.turn()
    monkeypatch.setattr(type(desk.leader._clock), "next_in", lambda _: 100.0)
    raised = LimitRaise.objects.get()
    for moment in (raised.starts_at.timestamp(), raised.ends_at.timestamp()):
        assert desk.leader.book.opens_at() == moment
        clock.ahead = moment - time.time() - 5
        assert 0 < desk.leader.wait_s() <= 5
        clock.ahead = moment - time.time()
        assert desk.leader.wait_s() == 0
        desk.turn()
    assert desk.leader.book.opens_at() == float("inf")


def test_a_placement_that_a_raise_made_possible_names_it(desk: Desk, pool: Pool) -> None:
    a = make_tenant("a", pool)
    tenant_limit(tenant_id=a.tenant_id, max_running=2, **WHO)
    made = lift("tenant", a.tenant_id, 2)
    jobs = [str(job.id) for job in submit(a, 5)]
    assert desk.turn() == jobs[:4]
    assert named() == {jobs[0]: [], jobs[1]: [], jobs[2]: [made], jobs[3]: [made]}
    desk.finish()
    assert desk.turn() == jobs[4:]
    assert named()[jobs[4]] == []


def test_what_runs_already_counts_and_all_raises_that_made_room_are_named(
    desk: Desk, pool: Pool
) -> None:
    a = make_tenant("a", pool)
    limit("global", "all", 1)
    limit("pool", pool.id, 9)
    submit(a)
    assert len(desk.turn()) == 1
    both = {lift("global", "all", 1), lift("global", "all", 1)}
    lift("pool", pool.id, 1)
    jobs = submit(a, 3)
    assert desk.turn() == [str(job.id) for job in jobs[:2]]
    assert set(named()[str(jobs[0].id)]) == both


@pytest.mark.parametrize("measure", ["requests_a_minute", "tokens_a_minute"])
def test_a_rate_is_raised_and_falls_back(
    desk: Desk, pool: Pool, clock: Clock, measure: str
) -> None:
    a, step = make_tenant("a", pool), MILLION if measure == "tokens_a_minute" else 1
    limit("tenant", a.tenant_id, step, measure)
    made = lift("tenant", a.tenant_id, step, measure, ends_in=30)
    jobs = [str(job.id) for job in submit(a, 5)]
    assert desk.turn() == jobs[:2]
    assert named() == {jobs[0]: [], jobs[1]: [made]}
    clock.ahead = 31
    assert desk.turn() == []
    assert desk.leader.book.config.rates == desk.leader.book.config.base_rates
    assert not desk.state(pool).limits.windows["tenant", str(a.tenant_id)].has_room(1, clock.now())


def test_a_providers_rate_is_raised(desk: Desk, pool: Pool) -> None:
    limit("provider", "simulated", 1, "requests_a_minute")
    made = lift("provider", "simulated", 1, "requests_a_minute")
    jobs = [str(job.id) for job in submit(make_tenant("a", pool), 3)]
    assert desk.turn() == jobs[:2]
    assert named() == {jobs[0]: [], jobs[1]: [made]}


def test_an_executors_limit_is_raised_up_to_its_slots(desk: Desk, pool: Pool, clock: Clock) -> None:
    executor = make_executor(pool, "main-sim", slots=3)
    limit("executor", executor.id, 1)
    made = lift("executor", executor.id, 9)
    jobs = [str(job.id) for job in submit(make_tenant("a", pool), 5)]
    assert desk.turn() == jobs[:3]
    assert named() == {jobs[0]: [], jobs[1]: [made], jobs[2]: [made]}
    clock.ahead = MINUTE + 1
    desk.finish()
    assert desk.turn() == jobs[3:4]


def test_a_default_cap_and_a_keys_one_holder_are_raised(
    desk: Desk, pool: Pool, clock: Clock
) -> None:
    make_policy(default_caps={"user": 2})
    a = make_tenant("a", pool)
    lift("key", "repo", 1)
    jobs = submit(a, 4, keys=["repo"])
    assert len(desk.turn()) == 2
    lift("user", jobs[0].submitted_by, 1)
    more = submit(a, 2)
    assert desk.turn() == [str(more[0].id)]
    clock.ahead = MINUTE + 1
    desk.finish()
    assert len(desk.turn()) == 2
    assert desk.state(pool).limits.caps["key", "repo"] == 1


def test_a_raise_goes_on_adding_to_a_limit_that_changes_and_adds_to_none(
    desk: Desk, pool: Pool
) -> None:
    limit("global", "all", 1)
    lift("global", "all", 1)
    a = make_tenant("a", pool)
    submit(a, 9)
    assert len(desk.turn()) == 2
    limit("global", "all", 3)
    assert len(desk.turn()) == 2
    limit("global", "all", None)
    assert len(desk.turn()) == 5


def test_a_raise_that_is_ended_early_ends_at_once_and_a_restart_knows_it(
    desk: Desk, pool: Pool
) -> None:
    limit("global", "all", 1)
    made = lift("global", "all", 1)
    submit(make_tenant("a", pool), 4)
    assert len(desk.turn()) == 2
    desk.restart()
    assert desk.state(pool).limits.caps["global", "all"] == 2
    limit_raise_end(raise_id=LimitRaise.objects.get(id=made).id, now=datetime.now(UTC), **WHO)
    desk.finish()
    assert len(desk.turn()) == 1
    desk.restart()
    assert desk.state(pool).limits.caps["global", "all"] == 1

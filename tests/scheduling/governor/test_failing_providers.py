"""The leader among failing providers: probes, retry budgets, stranded jobs, and a leader's boot."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduling.executors.contract import ErrorClass
from scheduling.governor.sweep import fall_back
from scheduling.models import Attempt, Circuit, Executor, Job, JobEvent, Pool
from scheduling.models.xact import CurrentXact
from scheduling.services.readmission import jobs_readmit
from tenants.models import Workspace
from tests.scheduling.factories import (
    done,
    failed,
    make_executor,
    make_policy,
    make_tenant,
    set_circuit,
    settle,
    submit,
)
from tests.scheduling.governor.desk import Desk

DOWN = failed(ErrorClass.PROVIDER_ERROR)
LIMITED = failed(ErrorClass.RATE_LIMITED, retry_after_s=300)


@pytest.fixture
def acme(pool: Pool) -> Workspace:
    """Make a tenant, in a pool where a provider may be retried twice in a minute."""
    make_policy(
        retry={"max_attempts": 9, "budget_floor": 2, "budget_ratio": 0.5},
        breaker={"threshold": 100, "cooldown_s": 300},
    )
    return make_tenant("acme", pool)


def wake(desk: Desk) -> None:
    Job.objects.filter(state="waiting").update(wake_at=timezone.now(), changed=CurrentXact())
    desk.leader._wake()


def test_a_storm_is_retried_no_more_often_than_the_budget_lets_it(
    desk: Desk, pool: Pool, acme: Workspace
) -> None:
    submit(acme, 6)
    assert len(desk.turn()) == 6
    desk.finish(DOWN)
    wake(desk)
    assert len(desk.turn()) == 2
    assert desk.state(pool).use.total == 2  # who waits for a retry holds no slot
    assert len(desk.state(pool).order) == 4
    first = submit(acme, 3)
    assert set(desk.turn()) == {str(job.id) for job in first}
    desk.finish(DOWN)
    wake(desk)
    assert desk.turn() == []
    submit(acme, 2)
    desk.turn()
    desk.finish(done())
    assert len(desk.turn()) == 1  # two successes are worth one more retry


def test_a_new_leader_knows_what_was_retried_and_what_succeeded(
    desk: Desk, pool: Pool, acme: Workspace
) -> None:
    submit(acme, 6)
    desk.turn()
    desk.finish(DOWN)
    wake(desk)
    assert len(desk.turn()) == 2
    desk.restart()
    assert desk.leader.book.limits.retries["simulated"].used(timezone.now().timestamp()) == (2, 0)
    assert desk.turn() == []
    desk.finish(done())
    desk.restart()
    assert desk.leader.book.limits.retries["simulated"].used(timezone.now().timestamp()) == (2, 2)
    assert len(desk.turn()) == 1


def test_a_placement_after_a_lost_worker_is_no_retry(
    desk: Desk, pool: Pool, acme: Workspace
) -> None:
    submit(acme, 4)
    desk.turn()
    desk.claim()
    settle(list(Attempt.objects.filter(state="running")), None)
    assert len(desk.turn()) == 4


def test_an_opened_circuit_is_seen_with_the_failure_that_opened_it(
    desk: Desk, pool: Pool, acme: Workspace
) -> None:
    (job,) = submit(acme)
    desk.turn()
    desk.finish(LIMITED, [job])
    submit(acme, 3)
    assert desk.turn() == []
    Circuit.objects.update(until=timezone.now() - timedelta(seconds=1))
    desk.leader._wake()
    assert Circuit.objects.get().state == "half_open"
    assert len(desk.turn()) == 1  # the probe
    desk.leader._reconfigure()
    assert desk.turn() == []
    desk.finish(done())
    assert len(desk.turn()) == 2
    assert Circuit.objects.get().state == "closed"


def test_a_probe_that_is_lost_gives_its_turn_back(desk: Desk, pool: Pool, acme: Workspace) -> None:
    set_circuit("half_open", timezone.now(), model="simulated")
    submit(acme, 3)
    (probe,) = desk.turn()
    desk.claim()
    settle(list(Attempt.objects.filter(state="running")), None)
    assert desk.turn() == [probe]
    desk.restart()
    assert desk.turn() == []  # a new leader counts the probe that is out


@pytest.fixture
def models(pool: Pool) -> None:
    """Make two models of which the second may stand in for the first."""
    make_policy(fallback=[{"model": "a", "candidates": [{"model": "b"}]}])
    for model in "ab":
        make_executor(pool, model, models_offered=[model])


def test_jobs_whose_every_circuit_is_open_look_for_another_model(
    desk: Desk, pool: Pool, models: None
) -> None:
    acme = make_tenant("acme", pool)
    on_a = Executor.objects.get(slug="a")
    set_circuit("open", timezone.now() + timedelta(hours=1), executor=on_a)
    jobs = [*submit(acme, 2, model="a"), *submit(acme, model="a", paused=True)]
    assert desk.leader.book.config.is_troubled
    assert desk.turn() == []
    fall_back(desk.leader.book, desk.leader.epoch)
    desk.turn()
    assert "scheduling.jobs_readmit" in desk.control
    assert fall_back(desk.leader.book, desk.leader.epoch) == 0
    assert JobEvent.objects.filter(reason="fallback").count() == 2
    assert jobs_readmit(now=timezone.now()) == 2
    assert set(desk.turn()) == {str(job.id) for job in jobs[:2]}
    assert set(Attempt.objects.values_list("executor__slug", flat=True)) == {"b"}
    desk.finish(done())
    assert Job.objects.filter(state="done", runs_model="b").count() == 2


def test_where_no_list_or_no_circuit_is_open_nobody_is_sent_away(
    desk: Desk, pool: Pool, models: None
) -> None:
    acme = make_tenant("acme", pool)
    submit(acme, model="b")
    assert fall_back(desk.leader.book, desk.leader.epoch) == 0
    desk.turn()
    on_b = Executor.objects.get(slug="b")
    set_circuit("open", timezone.now() + timedelta(hours=1), executor=on_b)
    submit(acme, model="b")
    desk.leader._reconfigure()
    assert desk.turn() == []
    assert fall_back(desk.leader.book, desk.leader.epoch) == 0
    assert Job.objects.filter(state="queued").count() == 1


def test_the_first_try_of_a_stand_in_is_no_retry(desk: Desk, pool: Pool, models: None) -> None:
    make_policy(
        fallback=[{"model": "a", "candidates": [{"model": "b"}]}],
        retry={"max_attempts": 9, "budget_floor": 0, "budget_ratio": 0},
    )
    acme = make_tenant("acme", pool)
    submit(acme, model="a")
    assert len(desk.turn()) == 1
    desk.finish(DOWN)
    desk.turn()
    assert jobs_readmit(now=timezone.now()) == 1
    assert len(desk.turn()) == 1
    desk.restart()
    assert desk.leader.book.limits.retries.get("simulated").used(timezone.now().timestamp()) == (
        0,
        0,
    )

"""Circuits, moved by what is settled of the attempts that they let through."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.executors.contract import ErrorClass, Outcome
from scheduling.models import Circuit, Job, Pool
from tenants.models import Workspace
from tests.scheduling.factories import (
    done,
    failed,
    make_executor,
    make_policy,
    running,
    set_circuit,
    settle,
    submit,
)


def fail_often(acme: Workspace, worker: int, times: int, outcome: Outcome, **more: Any) -> Circuit:
    """Let jobs end so, one after another; return the circuit of what they ran, or of the key."""
    for job in submit(acme, times, **more):
        settle([running(job, worker)], outcome)
    of_key = outcome.error_class in (ErrorClass.RATE_LIMITED, ErrorClass.UNAUTHORIZED)
    return Circuit.objects.get(model="" if of_key else more.get("model", "simulated"))


def rest_s(circuit: Circuit, now: Any) -> float:
    assert circuit.until is not None
    return (circuit.until - now).total_seconds()


def test_a_circuit_opens_after_its_threshold_of_failures(acme: Workspace, worker: int) -> None:
    make_policy(breaker={"threshold": 3, "cooldown_s": 50})
    now = timezone.now()
    bad = failed(ErrorClass.TIMEOUT)
    assert fail_often(acme, worker, 2, bad).state == "closed"
    circuit = fail_often(acme, worker, 1, bad)
    assert (circuit.state, circuit.failures) == ("open", 0)
    assert 50 <= rest_s(circuit, now) < 60


def test_one_success_between_failures_keeps_the_circuit_closed(
    acme: Workspace, worker: int
) -> None:
    make_policy(breaker={"threshold": 3})
    fail_often(acme, worker, 2, failed(ErrorClass.TIMEOUT))
    assert fail_often(acme, worker, 1, done()).failures == 0
    assert fail_often(acme, worker, 2, failed(ErrorClass.TIMEOUT)).state == "closed"


@pytest.mark.parametrize("error", [ErrorClass.UNAUTHORIZED, ErrorClass.TIMEOUT])
def test_what_a_callers_own_client_meets_says_nothing_of_what_all_share(
    acme: Workspace, worker: int, error: ErrorClass
) -> None:
    make_policy(breaker={"threshold": 1})
    for job in submit(acme, 3):
        attempt = running(job, worker)
        Job.objects.filter(id=job.id).update(kind="call")
        settle([attempt], failed(error))
    assert not Circuit.objects.exists()


@pytest.mark.parametrize("outcome", [done(), failed(ErrorClass.INVALID_REQUEST), None])
def test_what_is_well_or_a_jobs_own_fault_or_nobodys_makes_no_circuit(
    acme: Workspace, worker: int, outcome: Outcome | None
) -> None:
    for job in submit(acme, 3):
        settle([running(job, worker)], outcome)
    assert not Circuit.objects.exists()


@pytest.mark.parametrize("error", [ErrorClass.RATE_LIMITED, ErrorClass.UNAUTHORIZED])
def test_a_rate_limit_or_a_refused_key_rests_the_whole_key_at_once(
    acme: Workspace, worker: int, error: ErrorClass
) -> None:
    now = timezone.now()
    circuit = fail_often(acme, worker, 1, failed(error, retry_after_s=200))
    assert circuit.state == "open"
    assert 200 <= rest_s(circuit, now) < 210
    assert Circuit.objects.count() == 1


def test_a_models_faults_do_not_count_against_its_neighbours(
    pool: Pool, acme: Workspace, worker: int
) -> None:
    make_policy(breaker={"threshold": 2})
    executor = make_executor(pool, "two", models_offered=["a", "b"])
    bad = failed(ErrorClass.PROVIDER_ERROR)
    for model, times in (("a", 2), ("b", 1)):
        for job in submit(acme, times, model=model):
            settle([running(job, worker, executor=executor)], bad)
    states = dict(Circuit.objects.values_list("model", "state"))
    assert states == {"a": "open", "b": "closed"}


def test_a_shorter_answer_does_not_shorten_the_rest(acme: Workspace, worker: int) -> None:
    first = fail_often(acme, worker, 1, failed(ErrorClass.RATE_LIMITED, retry_after_s=200))
    second = fail_often(acme, worker, 1, failed(ErrorClass.RATE_LIMITED, retry_after_s=1))
    assert first.until == second.until


def test_of_two_rate_limits_the_later_deadline_wins_whichever_came_first(
    acme: Workspace, worker: int
) -> None:
    start = timezone.now()
    for first_s, second_s, until in ((1.0, None, 60.5), (None, 1.0, 60.0)):
        Circuit.objects.all().delete()
        one, two = (running(job, worker) for job in submit(acme, 2))
        settle([one], failed(ErrorClass.RATE_LIMITED, retry_after_s=first_s), start)
        later = start + timedelta(seconds=0.5)
        settle([two], failed(ErrorClass.RATE_LIMITED, retry_after_s=second_s), later)
        assert rest_s(Circuit.objects.get(), start) == pytest.approx(until)


def test_a_probe_that_succeeds_closes_the_circuit_of_its_key_and_of_its_model(
    acme: Workspace, worker: int
) -> None:
    for model in ("", "simulated"):
        set_circuit("half_open", timezone.now(), model=model)
    fail_often(acme, worker, 1, done())
    assert set(Circuit.objects.values_list("state", "until")) == {("closed", None)}

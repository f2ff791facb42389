"""The executors' circuits, moved by what is settled of their attempts."""

from django.utils import timezone

from scheduling.executors.contract import ErrorClass, Outcome
from scheduling.models import Executor
from tenants.models import Workspace
from tests.scheduling.factories import (
    done,
    failed,
    make_policy,
    running,
    settle,
    submit,
)


def fail_often(acme: Workspace, worker: int, times: int, outcome: Outcome) -> Executor:
    for job in submit(acme, times):
        settle([running(job, worker)], outcome)
    return Executor.objects.get()


def test_a_circuit_opens_after_its_threshold_of_failures(acme: Workspace, worker: int) -> None:
    make_policy(breaker={"threshold": 3, "cooldown_s": 50})
    now = timezone.now()
    bad = failed(ErrorClass.TIMEOUT)
    assert fail_often(acme, worker, 2, bad).circuit == "closed"
    executor = fail_often(acme, worker, 1, bad)
    assert executor.circuit == "open"
    assert executor.circuit_until is not None
    assert 50 <= (executor.circuit_until - now).total_seconds() < 60


def test_one_success_between_failures_keeps_the_circuit_closed(
    acme: Workspace, worker: int
) -> None:
    make_policy(breaker={"threshold": 3})
    fail_often(acme, worker, 2, failed(ErrorClass.TIMEOUT))
    assert fail_often(acme, worker, 1, done()).circuit_failures == 0
    assert fail_often(acme, worker, 2, failed(ErrorClass.TIMEOUT)).circuit == "closed"


def test_a_jobs_own_fault_is_not_held_against_the_executor(acme: Workspace, worker: int) -> None:
    executor = fail_often(acme, worker, 6, failed(ErrorClass.INVALID_REQUEST))
    assert (executor.circuit, executor.circuit_failures) == ("closed", 0)


def test_a_rate_limit_opens_at_once_for_as_long_as_it_says(acme: Workspace, worker: int) -> None:
    now = timezone.now()
    executor = fail_often(acme, worker, 1, failed(ErrorClass.RATE_LIMITED, retry_after_s=200))
    assert executor.circuit == "open"
    assert executor.circuit_until is not None
    assert 200 <= (executor.circuit_until - now).total_seconds() < 210


def test_a_shorter_answer_does_not_shorten_the_rest(acme: Workspace, worker: int) -> None:
    first = fail_often(acme, worker, 1, failed(ErrorClass.RATE_LIMITED, retry_after_s=200))
    second = fail_often(acme, worker, 1, failed(ErrorClass.RATE_LIMITED, retry_after_s=1))
    assert first.circuit_until == second.circuit_until


def test_a_probe_that_succeeds_closes_the_circuit(acme: Workspace, worker: int) -> None:
    Executor.objects.update(circuit="half_open", circuit_until=timezone.now(), circuit_failures=0)
    executor = fail_often(acme, worker, 1, done())
    assert (executor.circuit, executor.circuit_until) == ("closed", None)

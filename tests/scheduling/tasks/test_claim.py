"""Claiming: once, in order, and only what is still to be had."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.utils import timezone

from scheduling.models import Attempt, Executor, Job
from scheduling.services.cancel import job_cancel
from scheduling.tasks.claim import attempts_claim
from tenants.models import Workspace
from tests.scheduling.factories import WHO, claim, make_executor, make_worker, place, submit


@pytest.fixture
def worker(transactional_db: None) -> int:
    return make_worker()


def test_a_claim_takes_the_attempts_in_the_order_of_the_message(
    acme: Workspace, worker: int
) -> None:
    attempts = [place(job) for job in submit(acme, 5)][::-1]
    claimed = claim(worker, attempts)
    assert [one.attempt_id for one in claimed] == [one.id for one in attempts]
    rows = Attempt.objects.all()
    assert {(row.state, row.worker_id) for row in rows} == {("running", worker)}
    assert all(row.started_at and row.lease_until > timezone.now() for row in rows)


def test_a_claim_brings_all_that_running_the_work_needs(acme: Workspace, worker: int) -> None:
    executor = make_executor(acme.tenant.workflows.get().pool, "m", models_offered=["m1", "m2"])
    job = submit(acme, seconds=2, idempotent=False)[0]
    one = claim(worker, [place(job, executor=executor)])[0]
    assert (one.job_id, one.fence, one.kind, one.idempotent) == (job.id, 1, "simulated", False)
    assert one.payload == {"seconds": 2, "tokens": {"input": 0, "output": 1_000_000}}
    assert (one.model, one.models, one.output_tokens) == ("m1", ("m1", "m2"), 1_000_000)
    assert (one.executor, one.executor_kind, one.slots) == ("m", "simulated", 100)


def test_a_job_names_its_own_model(acme: Workspace, worker: int) -> None:
    Executor.objects.update(models_offered=["m1", "m2"])
    assert claim(worker, [place(submit(acme, model="m2")[0])])[0].model == "m2"


def test_a_message_that_reaches_two_workers_is_claimed_once(acme: Workspace, worker: int) -> None:
    other = make_worker()
    for _ in range(5):
        attempts = [place(job) for job in submit(acme, 6)]
        barrier = threading.Barrier(2)

        def take(number: int, at: threading.Barrier = barrier, own: object = attempts) -> set[str]:
            try:
                connection.ensure_connection()
                at.wait(timeout=10)
                return {str(one.attempt_id) for one in claim(number, own)}  # type: ignore[arg-type]
            finally:
                connection.close()

        with ThreadPoolExecutor(2) as threads:
            first, second = threads.map(take, (worker, other))
        assert not first & second
        assert first | second == {str(one.id) for one in attempts}


def test_a_message_that_comes_again_finds_nothing(acme: Workspace, worker: int) -> None:
    attempt = place(submit(acme)[0])
    assert len(claim(worker, [attempt])) == 1
    assert claim(worker, [attempt]) == []


def test_a_wrong_fence_finds_nothing(acme: Workspace, worker: int) -> None:
    attempt = place(submit(acme)[0])
    assert attempts_claim(worker_id=worker, pairs=[(str(attempt.id), 2)]) == []


def test_an_attempt_that_its_job_has_passed_is_not_claimed(acme: Workspace, worker: int) -> None:
    attempt = place(submit(acme)[0])
    Job.objects.update(fence=2)
    assert claim(worker, [attempt]) == []


def test_a_canceled_job_is_not_claimed(acme: Workspace, worker: int) -> None:
    job = submit(acme)[0]
    attempt = place(job)
    job_cancel(job_id=job.id, now=timezone.now(), **WHO)
    assert claim(worker, [attempt]) == []


def test_an_empty_message_claims_nothing(acme: Workspace, worker: int) -> None:
    assert claim(worker, []) == []

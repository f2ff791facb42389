"""Case C32: what a provider sees is what the job shows, whatever layers lie between."""

from collections.abc import Iterator
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.utils import timezone

from scheduling.events import valkey_client
from scheduling.executors.registry import SHARED
from scheduling.models import Attempt, Executor, Job, Pool
from scheduling.services.readmission import jobs_readmit
from scheduling.tasks.execute import _spec, _work
from tests.scheduling.factories import (
    claim,
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_tenant,
    make_worker,
    place,
    settle,
    submit,
)
from tests.scripted_model import ModelServer, failing, refused

CHAT = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    one = ModelServer("a", "b")
    yield one
    SHARED.forget()
    one.close()


@pytest.fixture
def pool(db: None, server: ModelServer) -> Pool:
    valkey_client().flushdb()
    make_policy(
        fallback=[{"model": "a", "candidates": [{"model": "b"}]}],
        breaker={"threshold": 1000, "cooldown_s": 0.1},
    )
    make_price(output="0", input="0", worker_seconds="0")
    pool = make_pool()
    for model in "ab":
        make_executor(
            pool, model, kind="local-model", job_kinds=["chat"], models_offered=[model],
            endpoint=server.address,
        )  # fmt: skip
    return pool


def run_out(job: Job, worker: int) -> list[Attempt]:
    """Run the job attempt by attempt, at once whatever it should wait for, until it has ended."""
    while job.finished_at is None:
        jobs_readmit(now=timezone.now() + timedelta(days=1))
        job.refresh_from_db()
        executor = Executor.objects.get(slug=job.model_in_force)
        place(job, fence=job.fence + 1, executor=executor)
        (claimed,) = claim(worker)
        outcome = SHARED.get(_spec(claimed)).dispatch(_work(claimed), Event())
        settle([claimed], outcome)
        job.refresh_from_db()
    return list(Attempt.objects.filter(job=job).order_by("fence").select_related("executor"))


def ask(pool: Pool, model: str, **more: Any) -> Job:
    return submit(make_tenant("acme", pool), kind="chat", payload=CHAT, model=model, **more)[0]


def test_four_tries_are_four_requests(pool: Pool, server: ModelServer) -> None:
    server.behave(refused())
    attempts = run_out(ask(pool, "b", max_attempts=4), make_worker(queues=["local-model"]))
    assert (len(attempts), server.count()) == (4, 4)
    assert {one.error_class for one in attempts} == {"rate_limited"}


def test_five_tries_over_two_executors_are_five_requests(pool: Pool, server: ModelServer) -> None:
    server.behave(failing())
    attempts = run_out(ask(pool, "a", max_attempts=5), make_worker(queues=["local-model"]))
    assert (server.count("a"), server.count("b")) == (3, 2)
    assert [one.executor.slug for one in attempts] == list("ababa")
    assert {one.error_class for one in attempts} == {"provider_error"}

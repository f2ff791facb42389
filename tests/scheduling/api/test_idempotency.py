"""Idempotency-Key: one answer a key, also under concurrency and after a crash (case C52)."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from billing.models import Reservation
from scheduling.models import IdempotencyRecord, Job
from scheduling.services import idempotency
from scheduling.services.idempotency import Answer, KeyInProgress, answer_once, answers_forget
from tests.scheduling.api.conftest import job

pytestmark = pytest.mark.django_db


def test_a_repeat_replays_the_stored_answer(web):
    first = web.post("/jobs", job(), Idempotency_Key="k1")
    again = web.post("/jobs", job(), Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert "Idempotent-Replayed" not in first
    assert again["Idempotent-Replayed"] == "true"
    assert Job.objects.count() == Reservation.objects.count() == 1


def test_the_order_of_keys_and_white_space_do_not_matter(web):
    first = web.post("/jobs", '{"workflow":"build","kind":"simulated","payload":{"seconds":1}}',
                     Idempotency_Key="k1")  # fmt: skip
    again = web.post("/jobs", '{ "payload": {"seconds": 1},\n "kind": "simulated", '
                     '"workflow": "build" }', Idempotency_Key="k1")  # fmt: skip
    assert again.json()["id"] == first.json()["id"]
    assert Job.objects.count() == 1


def test_another_body_under_the_same_key_is_409_and_stores_nothing(web):
    web.post("/jobs", job(), Idempotency_Key="k1")
    response = web.post("/jobs", job(model="other"), Idempotency_Key="k1")
    assert (response.status_code, response.json()["code"]) == (409, "idempotency_key_reused")
    assert Job.objects.count() == 1


def test_another_tenant_with_the_same_key_gets_its_own_job(web, foreign):
    first = web.post("/jobs", job(), Idempotency_Key="k1")
    second = foreign.post("/jobs", job(), Idempotency_Key="k1")
    assert second.status_code == 201
    assert second.json()["id"] != first.json()["id"]
    assert "Idempotent-Replayed" not in second
    assert "acme" not in second.content.decode()


def test_a_denied_answer_is_replayed_as_the_problem_it_was(web):
    first = web.post("/jobs", job(cost=9), Idempotency_Key="k1")
    again = web.post("/jobs", job(cost=9), Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (422, 422)
    assert again["Content-Type"] == "application/problem+json"
    assert again.json() == first.json()
    assert Job.objects.count() == 1


def test_bad_input_is_not_remembered_so_the_key_serves_the_mended_call(web):
    assert web.post("/jobs", job(workflow="nope"), Idempotency_Key="k1").status_code == 400
    assert web.post("/jobs", job(), Idempotency_Key="k1").status_code == 201


def test_without_a_key_every_call_is_its_own(web):
    web.post("/jobs", job())
    web.post("/jobs", job())
    assert Job.objects.count() == 2
    assert not IdempotencyRecord.objects.exists()


@pytest.mark.parametrize("key", ["", "x" * 256, "käse", "tab\there"])
def test_a_bad_key_is_400_by_name(web, key):
    response = web.post("/jobs", job(), Idempotency_Key=key)
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == "Idempotency-Key"
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_ten_concurrent_identical_calls_make_one_job(web):
    barrier = threading.Barrier(10)

    def call(_: int) -> tuple[int, str, bool]:
        barrier.wait(timeout=10)
        try:
            response = web.post("/jobs", job(), Idempotency_Key="k1")
            return response.status_code, response.json()["id"], "Idempotent-Replayed" in response
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(call, range(10)))
    assert {status for status, _, _ in answers} == {201}
    assert len({job_id for _, job_id, _ in answers}) == 1
    assert [replayed for _, _, replayed in answers].count(False) == 1
    assert Job.objects.count() == Reservation.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_crash_after_the_jobs_are_stored_leaves_nothing_and_a_repeat_does_the_work(
    web, monkeypatch
):
    def crash(*_args, **_more):
        raise SystemError

    with monkeypatch.context() as patch:
        patch.setattr("scheduling.api.submit.answer_of", crash)
        patch.setattr("scheduling.api.jobs.answer_of", crash)
        assert web.post("/jobs", job(), Idempotency_Key="k1").status_code == 500
    assert not Job.objects.exists()
    assert not IdempotencyRecord.objects.exists()
    assert web.post("/jobs", job(), Idempotency_Key="k1").status_code == 201
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_twin_of_a_call_that_takes_long_is_told_so(world, monkeypatch):
    monkeypatch.setattr(idempotency, "WAIT_S", 0.2)
    entered, leave = threading.Event(), threading.Event()

    def slow() -> Answer:
        entered.set()
        leave.wait(10)
        return Answer(status=200, body={"n": 1})

    def first():
        try:
            return answer_once(workspace_id=world.web.id, key="k", asked="a", act=slow)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(first)
        assert entered.wait(10)
        with pytest.raises(KeyInProgress):
            answer_once(workspace_id=world.web.id, key="k", asked="a", act=slow)
        leave.set()
        assert running.result(10) == (Answer(status=200, body={"n": 1}), False)
    again = answer_once(workspace_id=world.web.id, key="k", asked="a", act=slow)
    assert again == (Answer(status=200, body={"n": 1}), True)


def test_a_call_in_progress_is_told_as_409_with_retry_after(web, monkeypatch):
    def busy(**_more):
        raise KeyInProgress

    monkeypatch.setattr("scheduling.api.writes.answer_once", busy)
    response = web.post("/jobs", job(), Idempotency_Key="k")
    assert (response.status_code, response.json()["code"]) == (409, "idempotency_in_progress")
    assert response["Retry-After"] == "1"


@pytest.mark.django_db(transaction=True)
def test_a_twin_does_the_work_when_the_first_call_fails(world):
    entered, leave = threading.Event(), threading.Event()

    def fail() -> Answer:
        entered.set()
        leave.wait(10)
        raise SystemError

    def run(act):
        try:
            return answer_once(workspace_id=world.web.id, key="k", asked="a", act=act)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, fail)
        assert entered.wait(10)
        second = pool.submit(run, lambda: Answer(status=200, body={"n": 2}))
        leave.set()
        with pytest.raises(SystemError):
            first.result(10)
        assert second.result(10) == (Answer(status=200, body={"n": 2}), False)


def test_old_answers_are_forgotten(world):
    answer_once(
        workspace_id=world.web.id, key="k", asked="a", act=lambda: Answer(status=200, body={})
    )
    born = IdempotencyRecord.objects.get().created_at
    assert answers_forget(before=born) == 0
    with transaction.atomic():
        assert answers_forget(before=born.replace(year=born.year + 1)) == 1

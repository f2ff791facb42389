"""Errors: problem+json for everything under /api/, and never a bare 500."""

import logging

import pytest
from django.db import OperationalError

from scheduling.models import Job
from tests.scheduling.api.conftest import Caller, job

pytestmark = pytest.mark.django_db

MEMBERS = {"type", "title", "status", "code", "detail", "instance"}


@pytest.mark.parametrize(
    "path",
    ["/api/v1/nothing", "/api/v1/", "/api/v2/jobs", "/api/", "/api/v1/jobs/", "/api/v1/jobs/x"],
)
@pytest.mark.parametrize("method", ["get", "post", "delete"])
def test_an_unknown_address_is_a_problem(world, path, method):
    response = getattr(Caller().client, method)(path)
    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")
    told = response.json()
    assert told.keys() >= MEMBERS
    assert (told["status"], told["code"], told["instance"]) == (404, "unknown_address", path)


def test_an_unforeseen_fault_is_a_500_with_an_incident_that_the_log_names(web, monkeypatch, caplog):
    def fail(*_args):
        message = "the inner fault"
        raise RuntimeError(message)

    monkeypatch.setattr("scheduling.api.jobs.jobs_list", fail)
    with caplog.at_level(logging.ERROR, "scheduling.api.problems"):
        response = web.get("/jobs")
    told = response.json()
    assert (response.status_code, told["code"]) == (500, "internal")
    assert response["Content-Type"] == "application/problem+json"
    assert told["incident"] in told["detail"]
    assert told["incident"] in caplog.text
    assert "RuntimeError: the inner fault" in caplog.text
    assert "the inner fault" not in response.content.decode()
    assert web.headers["Authorization"].split()[1] not in caplog.text


def test_a_database_that_is_down_is_503_with_retry_after(web, monkeypatch):
    def fail(*_args, **_more):
        message = "connection to server at 10.0.0.1 failed"
        raise OperationalError(message)

    monkeypatch.setattr("scheduling.api.authentication.key_authenticate", fail)
    response = web.post("/jobs", job())
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert int(response["Retry-After"]) > 0
    assert "10.0.0.1" not in response.content.decode()
    monkeypatch.undo()
    monkeypatch.setattr(Job.objects, "filter", fail)
    assert web.get("/jobs").status_code == 503


def test_answers_are_kept_out_of_caches(web):
    assert web.get("/jobs")["Cache-Control"] == "no-store"
    assert Caller().get("/jobs")["Cache-Control"] == "no-store"


def test_whatever_a_client_accepts_it_gets_json(web):
    headers = web.headers | {"Accept": "text/html"}
    response = web.client.get("/api/v1/jobs", headers=headers)
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")


@pytest.mark.parametrize("header", ["Bearer", "Bearer a b", "Bearer tlm_x_y", "bearer ä"])
def test_a_broken_bearer_header_is_401(world, header):
    response = Caller().client.get("/api/v1/jobs", headers={"Authorization": header})
    assert (response.status_code, response.json()["code"]) == (401, "unauthenticated")
    assert "WWW-Authenticate" in response


def test_nothing_is_lost_by_a_refused_call(web):
    kept = web.post("/jobs", job()).json()["id"]
    web.post("/jobs", "{")
    web.post("/jobs", job(colour=1))
    assert [str(one.id) for one in Job.objects.all()] == [kept]

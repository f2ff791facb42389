"""Jobs that a flow submits: admitted as any, waited for without a slot, ended with it."""

import json
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from billing.models import LedgerEntry
from scheduling.executors.contract import ErrorClass, Outcome
from scheduling.models import Attempt, Job, JobDependency
from scheduling.services import children
from scheduling.services.cancel import job_cancel
from scheduling.tasks import away as rounds_away
from scheduling.tasks import rounds
from tenants.models import Workspace
from tests.scheduling.factories import (
    WHO,
    accepted,
    done,
    failed,
    make_budget,
    running,
    settle,
)
from tests.scheduling.tasks.rounds.play import (
    Script,
    ask_for,
    begun,
    call,
    child,
    flow,
    flow_payload,
    ran,
    round_of,
    says,
)

pytestmark = pytest.mark.django_db


def test_a_reply_that_no_column_can_hold_is_made_one_that_can(acme: Workspace, worker: int) -> None:
    bad = ask_for(kind="chat", payload={"messages": "x", "a\0b": 1, "\ud800": 2})
    after = round_of(flow(acme), worker, Script(says("", bad)))
    assert after.state == "queued"
    assert "not valid" in after.checkpoint["messages"][-1]["content"]


def test_a_job_that_a_flow_submits_is_the_submitters_and_waited_for_without_a_slot(
    acme: Workspace, worker: int
) -> None:
    job = flow(acme, risk="medium")
    model = Script(says("", ask_for(), call(expression="1")), says("all done"))
    after = round_of(job, worker, model)
    assert (after.state, after.reason) == ("waiting", "waiting_on_child")
    kid = child()
    assert (kid.submitted_by, kid.workspace_id, kid.workflow_id, kid.depth, kid.risk) == (
        "ann", job.workspace_id, job.workflow_id, 1, "medium",
    )  # fmt: skip
    assert not Attempt.objects.filter(state__in=["dispatched", "running"]).exists()
    settle([running(kid, worker)], done({"answer": 42}))
    assert Job.objects.get(id=job.id).state == "queued"
    assert round_of(job, worker, model).state == "done"
    told = model.asked[1].payload["messages"][-2:]
    assert json.loads(told[0]["content"]) == {
        "job": str(kid.id), "state": "done", "reason": "finished", "result": {"answer": 42},
    }  # fmt: skip
    assert told[1]["content"] == "1"


def test_a_child_that_failed_is_told_as_it_ended(acme: Workspace, worker: int) -> None:
    job = flow(acme)
    model = Script(says("", ask_for()), says("pity"))
    round_of(job, worker, model)
    settle([running(child(), worker)], failed(ErrorClass.INVALID_REQUEST))
    assert round_of(job, worker, model).state == "done"
    told = json.loads(model.asked[1].payload["messages"][-1]["content"])
    assert (told["state"], told["error"]["class"]) == ("failed", "invalid_request")


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"kind": "poetry"}, "not valid"),
        ({"workflow": "none"}, "not valid. workflow"),
        ({"model": "huge", "kind": "chat", "payload": {"messages": [{"role": "user", "content": "x"}]}},
         "denied"),
    ],
)  # fmt: skip
def test_a_job_that_is_not_taken_is_told_and_not_waited_for(
    acme: Workspace, worker: int, more: dict[str, Any], word: str
) -> None:
    after = round_of(flow(acme), worker, Script(says("", ask_for(**more))))
    assert (after.state, after.reason) == ("queued", "step_done")
    assert word in after.checkpoint["messages"][-1]["content"]


def test_a_job_that_is_deferred_is_taken_back_and_told(acme: Workspace, worker: int) -> None:
    job = flow(acme)
    claimed = begun(job, worker)
    make_budget(acme, "20", dimension="tokens", window="day")
    accepted(acme, tokens={"output": 15})
    outcome = ran(claimed, Script(says("", ask_for())))
    settle([claimed], outcome)
    assert child().state == "canceled"
    assert not JobDependency.objects.exists()
    said = Job.objects.get(id=job.id).checkpoint["messages"][-1]["content"]
    assert said.startswith("Error: The job was deferred")


def test_a_submitter_who_may_no_more_submits_nothing(acme: Workspace, worker: int) -> None:
    job = flow(acme)
    claimed = begun(job, worker)
    Job.objects.filter(id=job.id).update(submitted_by="key:none")
    settle([claimed], ran(claimed, Script(says("", ask_for()))))
    assert "may ask for" in Job.objects.get(id=job.id).checkpoint["messages"][-1]["content"]


def test_depth_is_bounded(acme: Workspace, worker: int) -> None:
    job = flow(acme)
    Job.objects.filter(id=job.id).update(depth=children.MOST_DEPTH)
    after = round_of(job, worker, Script(says("", ask_for())))
    assert "ancestors" in after.checkpoint["messages"][-1]["content"]
    assert Job.objects.count() == 1


def test_a_round_that_is_run_again_takes_the_job_that_it_submitted_before(
    acme: Workspace, worker: int
) -> None:
    job = flow(acme)
    model = Script(says("", ask_for()), says("", ask_for()))
    lost = begun(job, worker)
    ran(lost, model)
    settle([lost], None)
    kid = child()
    after = round_of(job, worker, model)
    assert (after.state, after.reason) == ("waiting", "waiting_on_child")
    assert child().id == kid.id
    assert after.checkpoint["messages"][-1]["child"] == str(kid.id)


@pytest.mark.parametrize(
    "again", [says("", ask_for(workflow="build", model="other")), says("", call(expression="1"))]
)
def test_a_job_of_a_lost_try_that_is_asked_for_no_more_is_canceled(
    acme: Workspace, worker: int, again: Outcome
) -> None:
    job = flow(acme)
    lost = begun(job, worker)
    ran(lost, Script(says("", ask_for())))
    settle([lost], None)
    kid = child()
    after = round_of(job, worker, Script(again))
    kid.refresh_from_db()
    assert kid.state == "canceled"
    assert after.state == "queued"
    assert not JobDependency.objects.filter(open=True).exists()


def test_an_attempt_that_was_given_up_submits_nothing(acme: Workspace, worker: int) -> None:
    job = flow(acme)
    lost = begun(job, worker)
    settle([lost], None)
    begun(job, worker)
    outcome = ran(lost, Script(says("", ask_for(), tokens=9)))
    assert (outcome.error_class, outcome.usage.output_total) == (ErrorClass.INTERNAL, 9)
    assert outcome.next is None
    assert Job.objects.count() == 1


def test_a_cancel_takes_the_jobs_of_a_flow_with_it_at_any_depth(
    acme: Workspace, worker: int
) -> None:
    job = flow(acme)
    round_of(job, worker, Script(says("", ask_for(kind="flow", payload=flow_payload()))))
    round_of(child(), worker, Script(says("", ask_for())))
    grandchild = Job.objects.get(depth=2)
    attempt = running(grandchild, worker)
    job_cancel(job_id=job.id, acting_user=WHO, reason="enough", now=timezone.now())
    states = dict(Job.objects.values_list("depth", "state"))
    assert states == {0: "canceled", 1: "canceled", 2: "running"}
    settle([attempt], done())
    assert Job.objects.get(depth=2).state == "canceled"
    assert {job.state for job in Job.objects.all()} == {"canceled"}


def test_what_its_jobs_use_counts_for_a_flows_own_ceiling(acme: Workspace, worker: int) -> None:
    job = flow(acme, payload=flow_payload(max_tokens=100), max_tokens=2_000)
    model = Script(says("", ask_for(), tokens=100), says("hi"))
    round_of(job, worker, model)
    assert child().max_tokens == 1_800
    settle([running(child(), worker)], done(input_total=300, output_total=200))
    round_of(job, worker, model)
    second = model.asked[1]
    assert second.output_limit == 2_000 - 200 - 500 - second.estimate.input_tokens


def test_a_database_that_is_away_after_the_answer_does_not_lose_what_was_paid(
    acme: Workspace, worker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**_: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(rounds, "children_submit", away)
    monkeypatch.setattr(rounds_away, "WAIT_S", 0.0)
    monkeypatch.setattr(rounds_away.connection, "close", lambda: None)
    job = flow(acme)
    after = round_of(job, worker, Script(says("text", ask_for(), tokens=9)))
    assert (after.state, after.reason, after.step) == ("waiting", "retry_wait", 0)
    assert LedgerEntry.objects.get(meter="output").quantity == 9

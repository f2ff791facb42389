"""Jobs that a flow submits: admitted as any, waited for without a slot, ended with it."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from billing.models import LedgerEntry
from billing.services.checks import balances_differ
from billing.services.reservations import release
from scheduling.executors.contract import ErrorClass, Outcome
from scheduling.models import Attempt, Job, JobDependency, JobEvent
from scheduling.services import cancel, children
from scheduling.services.cancel import job_cancel, orphans_stop
from scheduling.services.expiry import jobs_expire
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


def test_what_is_asked_for_no_more_is_canceled_with_all_below_it_and_gives_back_once(
    acme: Workspace, worker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_budget(acme, "1000")
    job = flow(acme)
    lost = begun(job, worker)
    ran(lost, Script(says("", ask_for(kind="flow", payload=flow_payload()), ask_for(), ask_for())))
    settle([lost], None)
    round_of(Job.objects.get(kind="flow", depth=1), worker, Script(says("", ask_for())))
    given_back: list[int] = []

    def counted(*, job_ids: list[Any], now: datetime) -> list[Any]:
        given_back.append(len(job_ids))
        return release(job_ids=job_ids, now=now)

    monkeypatch.setattr(cancel, "release", counted)
    round_of(job, worker, Script(says("", call(expression="1"))))
    states = Job.objects.exclude(id=job.id).order_by("depth").values_list("depth", "state")
    assert list(states) == [(1, "canceled")] * 3 + [(2, "canceled")]
    assert given_back == [4]
    assert balances_differ() == []


def left_behind(job: Job) -> list[str]:
    """Return why the jobs of a flow were canceled, or asked to stop."""
    told = JobEvent.objects.filter(job__parent=job, event__startswith="cancel")
    return [one.data["why"] for one in told]


def test_a_flow_that_fails_leaves_no_job_running_for_nobody(
    acme: Workspace, worker: int, django_capture_on_commit_callbacks: Any
) -> None:
    job = flow(acme, max_attempts=1, idempotent=False)
    lost = begun(job, worker)
    ran(lost, Script(says("", ask_for())))
    with django_capture_on_commit_callbacks(execute=True):
        settle([lost], None)
    assert Job.objects.get(id=job.id).state == "failed"
    assert child().state == "canceled"
    assert left_behind(job) == ["the job that submitted it has ended"]


def test_what_a_process_that_dies_leaves_behind_is_canceled_by_the_next_sweep(
    acme: Workspace, worker: int
) -> None:
    job = flow(acme, max_attempts=1, idempotent=False)
    lost = begun(job, worker)
    ran(lost, Script(says("", ask_for(), ask_for())))
    settle([lost], None)  # and dies before what was to follow the commit
    one, other = Job.objects.filter(parent=job).order_by("seq")
    Job.objects.filter(id=other.id).update(submitted_at=timezone.now())  # requeued since
    assert one.state == "queued"
    orphans_stop(now=timezone.now())
    assert Job.objects.get(id=one.id).state == "canceled"
    assert Job.objects.get(id=other.id).state == "queued"


def test_a_flow_that_ends_otherwise_at_its_second_try_leaves_none_either(
    acme: Workspace, worker: int, django_capture_on_commit_callbacks: Any
) -> None:
    job = flow(acme)
    lost = begun(job, worker)
    ran(lost, Script(says("", ask_for())))
    settle([lost], None)
    attempt = running(child(), worker)
    with django_capture_on_commit_callbacks(execute=True):
        assert round_of(job, worker, Script(says("no need"))).state == "done"
    assert (child().state, child().cancel_requested) == ("running", True)
    settle([attempt], failed(ErrorClass.CANCELED))
    assert child().state == "canceled"


def test_a_flow_that_expires_leaves_none_either(
    acme: Workspace, worker: int, django_capture_on_commit_callbacks: Any
) -> None:
    job = flow(acme)
    round_of(job, worker, Script(says("", ask_for())))
    running(child(), worker)
    now = timezone.now()
    Job.objects.filter(id=job.id).update(deadline=now)
    with django_capture_on_commit_callbacks(execute=True):
        assert jobs_expire(now=now) == 1
    assert child().cancel_requested
    assert left_behind(job) == ["the job that submitted it has ended"]


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


def test_the_jobs_of_a_round_share_what_it_has_left_of_its_ceilings(
    acme: Workspace, worker: int
) -> None:
    ceilings = {"max_tokens": 2_000, "max_spend": Decimal("0.01")}
    job = flow(acme, payload=flow_payload(max_tokens=100), **ceilings)
    round_of(job, worker, Script(says("", *[ask_for()] * 3, tokens=100)))
    kids = Job.objects.filter(parent=job)
    # 100 tokens in and 100 out, at 1 and 2 dollars a million.
    assert {(one.max_tokens, one.max_spend) for one in kids} == {(600, Decimal("0.0032333333"))}
    assert (len(kids), sum(one.max_spend for one in kids) <= Decimal("0.0097")) == (3, True)


def test_a_database_that_is_away_after_the_answer_does_not_lose_what_was_paid(
    acme: Workspace, worker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**_: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(rounds, "children_submit", away)
    monkeypatch.setattr(rounds_away, "WAIT_S", 0.0)
    monkeypatch.setattr(rounds_away, "connections_renew", lambda _: None)
    job = flow(acme)
    after = round_of(job, worker, Script(says("text", ask_for(), tokens=9)))
    assert (after.state, after.reason, after.step) == ("waiting", "retry_wait", 0)
    assert LedgerEntry.objects.get(meter="output").quantity == 9

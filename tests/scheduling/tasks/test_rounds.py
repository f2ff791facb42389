"""Rounds of a flow on a worker: from a scripted model's answers to settled steps and back."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import F
from django.utils import timezone

from billing.models import Balance, LedgerEntry, Reservation, ReservationLine
from billing.services.checks import balances_differ
from scheduling.executors.contract import ErrorClass, Outcome, Status, Usage, Work
from scheduling.executors.tools import registry
from scheduling.kinds.contract import ModelAnswer
from scheduling.kinds.flow import Flow
from scheduling.kinds.flows import tools
from scheduling.models import Attempt, Job, JobDependency, JobEvent
from scheduling.services import children
from scheduling.services.cancel import job_cancel
from scheduling.services.readmission import jobs_readmit
from scheduling.services.submission import Accepted
from scheduling.tasks import away as rounds_away
from scheduling.tasks import execute, rounds
from scheduling.tasks.claim import Claimed
from tenants.models import Workspace
from tests.scheduling.factories import (
    WHO,
    accepted,
    claim,
    done,
    failed,
    make_budget,
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_tenant,
    make_worker,
    place,
    running,
    settle,
    submit_all,
)
from tests.scheduling.factories import (
    asked as asked_for,
)

pytestmark = pytest.mark.django_db
MILLION = 1_000_000


@pytest.fixture
def acme(django_user_model: Any) -> Workspace:
    make_policy(retry={"base_s": 1, "cap_s": 1})
    make_price(input="0", output="1")
    make_price("house", "small", input="1", output="2")
    pool = make_pool()
    make_executor(pool)
    make_executor(
        pool, "model", kind="local-model", provider="house", job_kinds=["flow", "chat"],
        models_offered=["small"], endpoint="http://127.0.0.1:1/v1",
    )  # fmt: skip
    django_user_model.objects.create_superuser("ann", password=None)
    return make_tenant("acme", pool)


@pytest.fixture
def worker(acme: Workspace) -> int:
    return make_worker()


def flow_payload(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Work it out."}]
    return {"flow": "agent", "messages": messages, "tools": ["calculator", "submit_job"], **more}


def flow(space: Workspace, *, payload: dict[str, Any] | None = None, **more: Any) -> Job:
    asked = {"kind": "flow", "payload": payload or flow_payload(), "submitted_by": "ann", **more}
    who = asked.pop("submitted_by")
    (answer,) = submit_all(space, [asked_for(**asked)], submitted_by=who)
    assert isinstance(answer, Accepted), answer
    job = answer.job
    assert job.state == "queued", job.reason
    return job


def call(name: str = "calculator", **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": "c1", "type": "function", "function": function}


def says(text: str = "", *calls: dict[str, Any], tokens: int = 10) -> Outcome:
    """Return what a model's executor answers a round with."""
    answer = ModelAnswer(text=text, tool_calls=calls, finish_reason="stop", model="small")
    usage = Usage(input_total=tokens, output_total=tokens, requests=1, tool_calls=len(calls))
    return Outcome(status=Status.COMPLETE, usage=usage, result=Flow().result(answer))


def begun(job: Job, worker: int) -> Claimed:
    """Place the job on the model's executor and claim it."""
    fresh = Job.objects.get(id=job.id)
    executor = fresh.pool.executors.get(slug="model")
    attempt = place(fresh, fence=fresh.fence + 1, executor=executor, step=fresh.step)
    (claimed,) = claim(worker, [attempt])
    return claimed


class Script:
    """A model that gives its answers in turn; `asked` are the works that it was given."""

    def __init__(self, *answers: Outcome) -> None:
        self._answers: Iterator[Outcome] = iter(answers)
        self.asked: list[Work] = []

    def __call__(self, work: Work) -> Outcome:
        self.asked.append(work)
        return next(self._answers)


def ran(claimed: Claimed, model: Script) -> Outcome:
    return execute._outcome(claimed, threading.Event(), model)


def round_of(job: Job, worker: int, model: Script) -> Job:
    """Run the job's next round to its settlement; returns the job as it then stands."""
    claimed = begun(job, worker)
    settle([claimed], ran(claimed, model))
    return Job.objects.get(id=job.id)


def test_a_flow_goes_from_round_to_round_to_its_answer(acme: Workspace, worker: int) -> None:
    job = flow(acme)
    model = Script(says("", call(expression="2 + 3")), says("It is 5."))
    after = round_of(job, worker, model)
    assert (after.state, after.reason, after.step) == ("queued", "step_done", 1)
    assert after.result["rounds"] == after.result["tool_calls"] == 1
    assert after.result["finished"] is False
    after = round_of(job, worker, model)
    assert (after.state, after.result["text"], after.result["finished"]) == (
        "done", "It is 5.", True,
    )  # fmt: skip
    told = model.asked[1].payload["messages"]
    assert told[1]["content"] is None
    assert told[2] == {"role": "tool", "tool_call_id": "c1", "content": "5"}
    assert model.asked[1].estimate.input_tokens > model.asked[0].estimate.input_tokens
    booked = LedgerEntry.objects.filter(meter="input").values_list("quantity", flat=True)
    assert list(booked) == [10, 10]


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        (call(expression="1 / 0"), "Error: It divides by zero."),
        (call("teleport", to="Mars"), "Error: There is no tool 'teleport'"),
        (call("http_get", url="http://x"), "Error: There is no tool 'http_get'"),
        (call(formula="1"), "Error: calculator takes expression"),
    ],
)
def test_whatever_is_wrong_with_a_call_is_told_to_the_model(
    acme: Workspace, worker: int, asked: dict[str, Any], reply: str
) -> None:
    after = round_of(flow(acme), worker, Script(says("", asked)))
    assert after.state == "queued"
    assert after.checkpoint["messages"][-1]["content"].startswith(reply)


def test_a_database_that_comes_back_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_away, "WAIT_S", 0.0)
    monkeypatch.setattr(rounds_away.connection, "close", lambda: None)
    tries: list[int] = []

    def shaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OperationalError
        return "here"

    assert rounds_away.patiently(shaky) == "here"


def test_a_reply_that_no_column_can_hold_is_made_one_that_can(acme: Workspace, worker: int) -> None:
    bad = ask_for(kind="chat", payload={"messages": "x", "a\0b": 1, "\ud800": 2})
    after = round_of(flow(acme), worker, Script(says("", bad)))
    assert after.state == "queued"
    assert "not valid" in after.checkpoint["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("bounds", "calls", "word"),
    [
        ({"max_steps": 1}, 1, "1 rounds"),
        ({"max_tool_calls": 1}, 2, "1 tool calls"),
    ],
)
def test_a_ceiling_ends_a_flow_with_what_it_has_and_no_more_tools(
    acme: Workspace, worker: int, bounds: dict[str, int], calls: int, word: str
) -> None:
    job = flow(acme, payload=flow_payload(**bounds))
    after = round_of(job, worker, Script(says("so far", *[call(expression="1")] * calls)))
    assert (after.state, after.reason) == ("failed", "hard_ceiling")
    assert word in after.error["message"]
    assert (after.result["text"], after.result["tool_calls"]) == ("so far", 0)


def test_time_that_is_up_ends_a_flow_before_its_next_round_is_paid_for(
    acme: Workspace, worker: int
) -> None:
    job = flow(acme, payload=flow_payload(max_seconds=60))
    after = round_of(job, worker, Script(says("so far", call(expression="1"))))
    state = after.checkpoint | {"began_at": after.checkpoint["began_at"] - 61}
    Job.objects.filter(id=job.id).update(checkpoint=state)
    model = Script()
    after = round_of(job, worker, model)
    assert (after.state, after.reason, model.asked) == ("failed", "hard_ceiling", [])
    assert after.result["text"] == "so far"
    last = Attempt.objects.latest("fence")
    assert (last.state, last.charge_due, last.spend) == ("canceled", 0, 0)


def test_tokens_bound_each_request_and_end_the_flow_when_they_are_used(
    acme: Workspace, worker: int
) -> None:
    job = flow(acme, payload=flow_payload(max_tokens=100), max_tokens=2_000)
    model = Script(
        says("", call(expression="1"), tokens=500), says("so far", call(expression="1"), tokens=500)
    )
    assert round_of(job, worker, model).state == "queued"
    after = round_of(job, worker, model)
    assert (after.state, after.reason) == ("failed", "hard_ceiling")
    first, second = model.asked
    assert first.output_limit == 2_000 - first.estimate.input_tokens
    assert second.output_limit == 1_000 - second.estimate.input_tokens


def test_a_flow_that_cannot_pay_its_next_question_does_not_ask_it(
    acme: Workspace, worker: int
) -> None:
    job = flow(acme, payload=flow_payload(max_tokens=100), max_tokens=700)
    model = Script(says("so far", call(expression="1"), tokens=300))
    round_of(job, worker, model)
    after = round_of(job, worker, model)
    assert (after.state, after.reason, len(model.asked)) == ("failed", "hard_ceiling", 1)
    assert after.result["text"] == "so far"


def test_spend_bounds_the_answer_by_its_price(acme: Workspace, worker: int) -> None:
    job = flow(acme, payload=flow_payload(max_tokens=100), max_spend=Decimal("0.01"))
    model = Script(says("", call(expression="1"), tokens=1_000), says("", call(expression="1")))
    round_of(job, worker, model)
    round_of(job, worker, model)
    first, second = model.asked
    assert first.output_limit == (10_000 - first.estimate.input_tokens) // 2
    assert second.output_limit == (7_000 - second.estimate.input_tokens) // 2


def test_a_chat_is_bounded_by_its_jobs_ceiling_less_what_earlier_tries_used(
    acme: Workspace, worker: int
) -> None:
    payload = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100}
    job = accepted(acme, kind="chat", payload=payload, max_tokens=400).job
    first = begun(job, worker)
    model = Script(failed(ErrorClass.INTERRUPTED, input_total=50, output_total=150), says("hi"))
    settle([first], ran(first, model))
    Job.objects.update(state="queued", wake_at=None)
    second = begun(job, worker)
    ran(second, model)
    estimate = model.asked[0].estimate.input_tokens
    assert [work.output_limit for work in model.asked] == [400 - estimate, 200 - estimate]


def test_a_job_without_ceilings_is_asked_nothing(
    acme: Workspace, worker: int, django_assert_num_queries: Any
) -> None:
    claimed = begun(flow(acme), worker)
    with django_assert_num_queries(0):
        outcome = rounds.round_run(
            claimed, execute._work(claimed), threading.Event(), Script(says("hi"))
        )
    assert outcome.result is not None


def test_a_failed_round_keeps_what_the_flow_has(acme: Workspace, worker: int) -> None:
    job = flow(acme, max_attempts=1)
    model = Script(
        says("first", call(expression="1")),
        replace(failed(ErrorClass.INTERRUPTED), partial_text="sec"),
    )
    round_of(job, worker, model)
    after = round_of(job, worker, model)
    assert after.state == "failed"
    assert (after.result["text"], after.result["partial_text"]) == ("first", "sec")


def test_a_round_that_is_lost_is_run_again_from_where_it_began(
    acme: Workspace, worker: int
) -> None:
    job = flow(acme)
    model = Script(
        says("", call(expression="1")),
        says("", call(expression="2")),
        says("", call(expression="2")),
    )
    round_of(job, worker, model)
    lost = begun(job, worker)
    ran(lost, model)
    settle([lost], None)
    after = round_of(job, worker, model)
    assert (after.step, after.checkpoint["rounds"]) == (2, 2)
    assert model.asked[1].payload == model.asked[2].payload


def ask_for(name: str = "submit_job", **more: Any) -> dict[str, Any]:
    payload = {"seconds": 0, "tokens": {"output": 7}}
    return call(name, **{"kind": "simulated", "payload": payload, **more})


def child() -> Job:
    return Job.objects.get(parent__isnull=False)


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


@pytest.fixture
def deeds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A tool that must not run twice; returns what it did."""
    did: list[str] = []

    def deed(arguments: Any, _cancel: threading.Event) -> str:
        did.append(arguments["expression"])
        return "did it"

    spec = replace(tools.TOOL_SPECS["calculator"], idempotent=False)
    known = dict(tools.TOOL_SPECS) | {"calculator": spec}
    monkeypatch.setattr(rounds, "TOOL_SPECS", known)
    monkeypatch.setattr(registry, "EFFECTS", {"calculator": deed})
    return did


def test_a_tool_that_must_not_run_twice_is_not_begun_again_by_another_try_of_its_step(
    acme: Workspace, worker: int, deeds: list[str]
) -> None:
    job = flow(acme)
    model = Script(*[says("", call(expression="a"))] * 3)
    lost = begun(job, worker)
    ran(lost, model)
    settle([lost], None)
    after = round_of(job, worker, model)
    assert deeds == ["a"]
    assert "must not run twice" in after.checkpoint["messages"][-1]["content"]
    round_of(job, worker, model)
    assert deeds == ["a", "a"]  # another step's call is another deed
    assert JobEvent.objects.filter(event="tool_begun").count() == 2


def test_a_worker_that_was_given_up_does_no_deed(
    acme: Workspace, worker: int, deeds: list[str]
) -> None:
    lost = begun(flow(acme), worker)
    settle([lost], None)
    outcome = ran(lost, Script(says("", call(expression="a"))))
    assert (deeds, outcome.error_class) == ([], ErrorClass.INTERNAL)


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


def test_tools_are_not_begun_while_the_work_is_being_stopped(acme: Workspace, worker: int) -> None:
    claimed = begun(flow(acme), worker)
    stop = threading.Event()
    stop.set()
    outcome = execute._outcome(claimed, stop, Script(says("", call(expression="1"))))
    assert outcome.next is not None
    assert "being stopped" in outcome.next.checkpoint["messages"][-1]["content"]


def test_a_step_that_no_budget_pays_for_goes_back_to_admission_and_on_from_there(
    acme: Workspace, worker: int
) -> None:
    make_budget(acme, "1000", dimension="tokens", window="day")
    make_budget(acme, "1", dimension="attempts")  # all steps together are one
    job = flow(acme, payload=flow_payload(max_tokens=100))
    model = Script(says("so far", call(expression="1"), tokens=450), says("done", tokens=1))
    assert round_of(job, worker, model).state == "queued"
    after = round_of(job, worker, model)
    assert (after.state, after.reason, after.error, len(model.asked)) == (
        "deferred", "budget", None, 1,
    )  # fmt: skip
    assert after.wake_at > timezone.now()
    assert (after.step, after.result["text"]) == (1, "so far")
    assert Reservation.objects.get().state == "released"
    assert Attempt.objects.latest("fence").message.startswith("The tenant's tokens budget")
    assert list(balances_differ()) == []
    assert jobs_readmit(now=timezone.now()) == 0
    later = after.wake_at + timedelta(seconds=1)
    assert jobs_readmit(now=later) == 1
    assert Job.objects.get().state == "queued"
    assert Job.objects.get().checkpoint == after.checkpoint


def test_what_a_flow_holds_moves_to_the_present_window_before_its_next_step(
    acme: Workspace, worker: int
) -> None:
    make_budget(acme, "1000", dimension="tokens", window="day")
    job = flow(acme, payload=flow_payload(max_tokens=100))
    model = Script(says("", call(expression="1")), says("done"))
    round_of(job, worker, model)
    yesterday = F("window_start") - timedelta(days=1)
    ReservationLine.objects.update(window_start=yesterday)
    Balance.objects.update(window_start=yesterday)
    assert round_of(job, worker, model).state == "done"


def test_tools_are_not_begun_when_the_time_of_the_flow_is_over(
    acme: Workspace, worker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = flow(acme, payload=flow_payload(max_seconds=60))
    clock = [1_000.0]
    monkeypatch.setattr(rounds.time, "time", lambda: clock[0])

    def slow(arguments: Any, _cancel: threading.Event) -> str:
        clock[0] += 40.0
        return "slow"

    monkeypatch.setattr(registry, "EFFECTS", {"calculator": slow})
    after = round_of(job, worker, Script(says("", *[call(expression="1")] * 3)))
    replies = [one["content"] for one in after.checkpoint["messages"][1:]]
    assert replies[:2] == ["slow", "slow"]
    assert "time of the whole work is over" in replies[2]

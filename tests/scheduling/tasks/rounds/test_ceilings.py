"""Ceilings and budgets of a flow between its steps, and of each request."""

import threading
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from billing.models import Balance, Reservation, ReservationLine
from billing.services.checks import balances_differ
from scheduling.executors.contract import ErrorClass
from scheduling.executors.tools import registry
from scheduling.models import Attempt, Job
from scheduling.services.readmission import jobs_readmit
from scheduling.tasks import execute, rounds
from tenants.models import Workspace
from tests.scheduling.factories import (
    accepted,
    failed,
    make_budget,
    settle,
)
from tests.scheduling.tasks.rounds.play import (
    Script,
    begun,
    call,
    flow,
    flow_payload,
    ran,
    round_of,
    says,
)

pytestmark = pytest.mark.django_db


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

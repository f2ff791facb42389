"""Rounds of a flow on a worker: from a scripted model's answers to settled steps and back."""

import threading
from dataclasses import replace
from typing import Any

import pytest
from django.db import OperationalError

from billing.models import LedgerEntry
from scheduling.executors.contract import ErrorClass
from scheduling.executors.tools import registry
from scheduling.kinds.flows import tools
from scheduling.models import JobEvent
from scheduling.tasks import away as rounds_away
from scheduling.tasks import execute, rounds
from tenants.models import Workspace
from tests.scheduling.factories import (
    failed,
    settle,
)
from tests.scheduling.tasks.rounds.play import (
    Script,
    begun,
    call,
    flow,
    ran,
    round_of,
    says,
)

pytestmark = pytest.mark.django_db


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
    monkeypatch.setattr(rounds_away, "connections_renew", lambda _: None)
    tries: list[int] = []

    def shaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OperationalError
        return "here"

    assert rounds_away.patiently(shaky) == "here"


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


def test_tools_are_not_begun_while_the_work_is_being_stopped(acme: Workspace, worker: int) -> None:
    claimed = begun(flow(acme), worker)
    stop = threading.Event()
    stop.set()
    outcome = execute._outcome(claimed, stop, Script(says("", call(expression="1"))))
    assert outcome.next is not None
    assert "being stopped" in outcome.next.checkpoint["messages"][-1]["content"]

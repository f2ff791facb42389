"""GET /jobs/{id}/explain: for each reason the check that speaks, its sentence and its facts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.core.policy.explain import Check
from scheduling.core.types import Reason
from scheduling.models import Job
from tenants.controls import tenant_weight
from tests.scheduling.api import explain_ways as ways
from tests.scheduling.api.conftest import Caller, World
from tests.scheduling.api.explain_ways import Stage
from tests.scheduling.factories import make_worker

pytestmark = pytest.mark.django_db


@dataclass
class Case:
    """A way to a reason, and what is told: the check, its status, words, and facts by path."""

    make: Callable[[Stage], str]
    check: Check
    status: str
    words: str
    facts: dict[str, Any] = field(default_factory=dict)
    levers: list[str] = field(default_factory=list)


FAST = ["prioritise", "pool_dial"]
CASES = {
    Reason.STARTS_NOW: Case(ways.starts_now, Check.RUN, "waits", "should start at once"),
    Reason.IN_ORDER: Case(
        ways.in_order, Check.ORDER, "waits", "none of the orders", {"place": None}
    ),
    Reason.HEAD_WAITS_FOR_UNITS: Case(
        ways.head_waits, Check.UNITS, "waits", "needs 2 and 1 are free",
        {"asked": 2, "free": 1, "reserve": 2, "in_use": 7, "held_by.jobs": 1,
         "held_by.tenants": 1, "held_by.named": [], "first.jobs": 0}, ["pool_dial"],
    ),
    Reason.BEHIND_HEAD: Case(
        ways.behind_head, Check.UNITS, "waits", "Served before it: 1 job.",
        {"asked": 1, "first.jobs": 1, "first.units": 2}, FAST,
    ),
    Reason.TENANT_HELD: Case(
        ways.held, Check.HOLD, "waits", "an operator holds its tenant", {}, ["tenant_weight"],
    ),
    Reason.JOB_PAUSED: Case(
        ways.paused, Check.PAUSE, "waits", "It is paused", {"why": "lunch"}, ["resume"]
    ),
    Reason.OWN_LIMIT: Case(
        ways.own_limit, Check.OWN_LIMITS, "waits", "runs as many jobs as it may",
        {"limits.0.scope": "workspace", "limits.0.running": 1, "limits.0.most": 1,
         "limits.0.full": True, "limits.0.held_by.jobs": 1}, ["limits"],
    ),
    Reason.SHARED_LIMIT: Case(
        ways.shared_limit, Check.SHARED_LIMITS, "waits", "shared by several tenants",
        {"limits.0.key": "licence", "limits.0.held_by.jobs": 1, "limits.0.held_by.named": []},
    ),
    Reason.RATE_WINDOW: Case(
        ways.rate_window, Check.RATES, "waits", "of the last minute",
        {"windows.0.scope": "tenant", "windows.0.requests": 1, "windows.0.requests_a_minute": 1},
    ),
    Reason.NO_EXECUTOR: Case(
        ways.no_executor, Check.EXECUTORS, "waits", "No executor",
        {"executors.0.executor": "sim", "executors.0.fits": False, "executors.0.enabled": False,
         "executors.0.why_not": ["unavailable"]}, ["executor_enable"],
    ),
    Reason.EXECUTOR_BUSY: Case(
        ways.executor_busy, Check.SLOTS, "waits", "1 executor may run it",
        {"executors.0.slots": 1, "executors.0.running": 1}, ["executor_capacity"],
    ),
    Reason.NEVER_FITS: Case(
        ways.never_fits, Check.SIZE, "waits", "costs 8 units but its class can have at most 3",
        {"cost": 8, "most": 3, "budget": 5, "reserve": 2}, ["pool_dial"],
    ),
    Reason.NOT_BEFORE: Case(
        ways.not_before, Check.NOT_BEFORE, "waits", "not start before", {"then.verdict": "deferred"}
    ),
    Reason.DEPENDENCY: Case(
        ways.dependency, Check.DEPENDENCIES, "waits", "waits for 1 job", {"open": 1}
    ),
    Reason.WAITING_ON_CHILD: Case(
        ways.waiting_on_child, Check.DEPENDENCIES, "waits", "submitted itself", {"open": 1}
    ),
    Reason.STEP_DONE: Case(ways.step_done, Check.RUN, "waits", "A step of it is done"),
    Reason.RETRY_WAIT: Case(
        lambda stage: stage.waits_after_a_try(Reason.RETRY_WAIT), Check.RETRY, "waits",
        "waits a moment", {"tries": 1, "most": 3, "error": "timeout", "executor": "sim"},
    ),
    Reason.RETRY_BUDGET: Case(
        ways.retry_budget, Check.RETRIES, "waits", "retry budget is used up",
        {"retry": True, "providers.0.provider": "simulated", "providers.0.most": 0,
         "providers.0.retries": 0, "providers.0.opens_at": None},
    ),
    Reason.CIRCUIT_OPEN: Case(
        ways.circuit_open, Check.READMISSION, "waits", "As decided.",
        {"then.sentence": "As decided."},
    ),
    Reason.FALLBACK: Case(
        lambda stage: stage.decided("deferred", Reason.FALLBACK, state="deferred"),
        Check.READMISSION, "waits", "is being looked for", {"then.reason": "fallback"},
    ),
    Reason.FELL_BACK: Case(
        lambda stage: stage.decided("deferred", Reason.FELL_BACK, state="deferred"),
        Check.READMISSION, "waits", "another stands in", {"then.reason": "fell_back"},
    ),
    Reason.BUDGET: Case(
        ways.budget, Check.BUDGET, "waits", "spend budget of tenant has 0.5",
        {"budgets.0.scope": "tenant", "budgets.0.limit": "1.5", "budgets.0.held": "1",
         "budgets.0.spent": "0", "budgets.0.asked": "1", "budgets.0.fits": False,
         "then.verdict": "deferred"}, ["budget"],
    ),
    Reason.UNPRICED_MODEL: Case(
        ways.unpriced, Check.PRICE, "fails", "No price is known", {"model": "nobody-sells-it"}
    ),
    Reason.BACKLOG_FULL: Case(
        ways.backlog_full, Check.BACKLOG, "fails", "no more jobs are taken from 0 on",
        {"scopes.0.scope": "workspace", "scopes.0.most": 0},
    ),
    Reason.NOT_PERMITTED: Case(
        lambda stage: ways.denied(stage, Reason.NOT_PERMITTED), Check.PERMISSION, "fails",
        "As decided.", {"kind": "simulated", "then.reason": "not_permitted"},
    ),
    Reason.SHED: Case(
        lambda stage: ways.denied(stage, Reason.SHED), Check.BACKLOG, "fails", "As decided."
    ),
    Reason.HARD_CEILING: Case(
        lambda stage: ways.denied(stage, Reason.HARD_CEILING), Check.CEILINGS, "fails", "As decided."
    ),
    Reason.CLASS_QUOTA: Case(
        lambda stage: ways.denied(stage, Reason.CLASS_QUOTA), Check.CLASS_QUOTA, "fails", "As decided."
    ),
    Reason.PLACED: Case(
        ways.placed, Check.RUN, "passed", "It is on sim", {"executor": "sim", "overdue": False}
    ),
    Reason.BACKFILLED: Case(
        lambda stage: ways.placed(stage, Reason.BACKFILLED), Check.RUN, "passed", "let past", {"units": 2}
    ),
    Reason.WORKER_LOST: Case(ways.lost, Check.END, "fails", "was lost", {"placements": 1}),
    Reason.CALLER_LOST: Case(
        lambda stage: stage.ended("failed", Reason.CALLER_LOST), Check.END, "fails", "never took"
    ),
    Reason.ATTEMPTS_EXHAUSTED: Case(
        lambda stage: stage.ended("failed", Reason.ATTEMPTS_EXHAUSTED), Check.END, "fails",
        "as often as it may", {"tries": 1, "most": 3},
    ),
    Reason.EXECUTION_ERROR: Case(
        lambda stage: stage.ended(
            "failed", Reason.EXECUTION_ERROR, error={"class": "internal", "message": "m"}
        ),
        Check.END, "fails", "itself failed", {"error": "internal"},
    ),
    Reason.DEADLINE: Case(
        ways.deadline, Check.DEADLINE, "fails", "has passed already",
        {"deadline": "2020-01-01T00:00:00Z", "then.reason": "deadline"},
    ),
    Reason.EXPIRED: Case(
        ways.expired, Check.EXPIRY, "fails", "is over already",
        {"expires_at": "2020-01-01T00:00:00Z", "then.reason": "expired"},
    ),
    Reason.CANCELED: Case(ways.canceled, Check.END, "fails", "canceled", {"state": "canceled"}),
    Reason.FINISHED: Case(ways.finished, Check.END, "passed", "It finished", {"state": "done"}),
    Reason.REVIEW: Case(
        ways.in_review, Check.RUN, "passed", "waits for a reviewer's verdict",
        {"executor": "main-reviewers", "state": "dispatched", "units": 0, "overdue": False},
    ),
    Reason.ACCEPTED: Case(
        ways.accepted, Check.END, "passed", "A reviewer accepted its work",
        {"state": "done", "outcome": "accepted"},
    ),
    Reason.REJECTED: Case(
        ways.rejected, Check.END, "passed", "A reviewer rejected its work",
        {"state": "done", "outcome": "rejected"},
    ),
    Reason.PREEMPTED: Case(
        ways.preempted, Check.RUN, "passed", "asked to make room for a job of class incident",
        {"makes_room.for": "preempt", "makes_room.for_class": "incident", "makes_room.times": 0},
    ),
    Reason.REQUEUED: Case(ways.requeued, Check.READMISSION, "waits", "was put back"),
}  # fmt: skip


@pytest.fixture
def stage(world: World, web: Caller, foreign: Caller, monkeypatch: pytest.MonkeyPatch) -> Stage:
    make_worker()
    return Stage(world=world, web=web, foreign=foreign, monkeypatch=monkeypatch)


def told(who: Caller, name: object) -> dict[str, Any]:
    response = who.get(f"/jobs/{name}/explain")
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    return answer


def at(facts: Any, path: str) -> Any:
    for step in path.split("."):
        facts = facts[int(step) if step.isdecimal() else step]
    return facts


def test_the_table_has_every_reason():
    assert set(CASES) == set(Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_explained_by_its_check_in_a_sentence_with_facts(stage, reason):
    case = CASES[reason]
    found = told(stage.web, case.make(stage))
    spoke = next(one for one in found["checks"] if one["check"] == case.check)
    assert (found["reason"], spoke["reason"]) == (reason, reason)
    assert (spoke["status"], found["sentence"]) == (case.status, spoke["sentence"])
    assert case.words in spoke["sentence"]
    assert {path: at(spoke["facts"], path) for path in case.facts} == case.facts
    assert [one["lever"] for one in found["forward"]] == case.levers


@pytest.mark.parametrize("reason", list(Reason))
def test_checks_stand_in_their_order_and_end_with_the_one_that_speaks(stage, reason):
    found = told(stage.web, CASES[reason].make(stage))
    assert [one["check"] for one in found["checks"]] == list(Check)
    statuses = [one["status"] for one in found["checks"]]
    spoke = [status for status in statuses if status in ("waits", "fails")]
    assert len(spoke) == (found["state"] not in ("running", "done"))
    if found["state"] in ("queued", "deferred", "waiting", "denied"):
        stop = statuses.index(spoke[0])
        assert set(statuses[:stop]) <= {"passed"}
        assert set(statuses[stop + 1 :]) <= {"not_reached"}


def test_a_review_that_waits_for_a_reviewer_is_bound_by_nothing_of_its_work(stage):
    lies = ways.in_review(stage)
    name = stage.submit(review=True)
    soon = timezone.now() + timedelta(seconds=30)
    Job.objects.filter(id=name).update(
        state="queued", phase="review", reason="review", deadline=soon - timedelta(minutes=1),
        started_at=timezone.now(), fence=1, cost=999,
    )  # fmt: skip
    tenant_weight(tenant_id=stage.world.acme.id, weight=0, acting_user="o", reason="r")
    found = told(stage.web, name)
    assert (found["reason"], found["sentence"]) == (
        "executor_busy", "All slots of the executors that can run it are taken. 1 executor may run it.",
    )  # fmt: skip
    order = next(one for one in found["checks"] if one["check"] == "order")
    assert (order["facts"]["class"], order["facts"]["place"]) == ("review", 1)
    assert told(stage.web, lies)["reason"] == "review"

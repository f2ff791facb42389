"""The lab, the whiteboard exercise and the 1,000 against 100: what they must show, and say why."""

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scheduling.core.reasons import REASON_SENTENCES
from scheduling.core.types import Reason
from scheduling.simulator.engine import play
from scheduling.simulator.naive import RULES, placements
from scheduling.simulator.reading import read
from scheduling.simulator.report import Report
from scheduling.simulator.scenario import Scenario
from scheduling.simulator.sentences import LEADS, sentence

SCENARIOS = Path(__file__).resolve().parents[3] / "scheduling/scenarios"
EXPLAINED = {"queued", "deferred", "denied", "shed", "preempted", "requeued", "retried", "held"}


class Played(NamedTuple):
    """A scenario, its log, its summary and its report."""

    scenario: Scenario
    events: list[dict[str, Any]]
    summary: dict[str, Any]
    page: str

    def named(self, *names: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] in names]

    def counts(self) -> Counter[tuple[str, str]]:
        return Counter((event["event"], event.get("reason", "")) for event in self.events)


@cache
def played(name: str) -> Played:
    scenario = read(SCENARIOS / f"{name}.yaml")
    report, events = Report(scenario), list[dict[str, Any]]()

    def take(event: dict[str, Any]) -> None:
        report.take(event)
        events.append(event)

    summary = play(scenario, take)
    return Played(scenario, events[:-1], summary, report.html(summary))


@pytest.mark.parametrize("name", ["lab", "whiteboard"])
def test_every_decision_carries_a_reason_and_its_facts_and_is_told_in_the_report(name: str) -> None:
    run = played(name)
    decided = run.named(*EXPLAINED, "circuit_opened", "lost")
    assert decided
    for event in decided:
        reason = Reason(event["reason"])
        assert event["facts"], event
        said = sentence(event)
        assert event["event"] in LEADS
        assert event["event"] == "circuit_opened" or REASON_SENTENCES[reason] in said
        assert said.replace("'", "&#x27;") in run.page


@pytest.mark.parametrize("name", ["lab", "whiteboard"])
def test_every_job_ends_and_the_money_of_the_tenants_adds_up(name: str) -> None:
    run = played(name)
    ends = Counter(
        event["job"]
        for event in run.named("finished", "failed", "denied", "shed", "canceled", "expired")
    )
    assert set(ends.values()) == {1}
    assert len(ends) == run.scenario.job_count
    incurred = sum(float(event.get("incurred", 0)) for event in run.events)
    assert incurred == pytest.approx(float(run.summary["cost"]["incurred"]))
    assert incurred > 0


# --- the lab ------------------------------------------------------------------------------


def test_the_lab_has_two_tenants_and_three_priorities_that_all_run() -> None:
    run = played("lab")
    placed = {event["class"] for event in run.named("placed")}
    assert placed == {"incident", "normal", "batch"}
    assert set(run.summary["tenants"]) == {"research", "product"}


def test_the_lab_triggers_backpressure_before_its_queue_grows_without_bound() -> None:
    counts = played("lab").counts()
    assert counts["shed", "shed"] > 0
    assert counts["denied", "backlog_full"] > 0


def test_the_lab_defers_what_a_quota_has_no_room_for_until_the_next_window() -> None:
    run = played("lab")
    (deferred,) = run.named("deferred")
    assert deferred["reason"] == "budget"
    assert deferred["facts"]["until"] == 3600
    (placed,) = (one for one in run.named("placed") if one["job"] == deferred["job"])
    assert placed["t"] == 3600


def test_the_lab_has_exactly_one_preemption_and_it_is_safe() -> None:
    run = played("lab")
    (preempted,) = run.named("preempted")
    assert preempted["facts"]["victim_of"] == "incident-2"
    assert preempted["job"].startswith("eval-")  # the kind that saves a checkpoint
    assert preempted["facts"]["lost_s"] == 0
    (finished,) = (one for one in run.named("finished") if one["job"] == preempted["job"])
    assert (finished["ran_s"], finished["wasted"]) == (240.0, "0")


def test_in_the_lab_an_incident_uses_the_reserve_while_others_wait() -> None:
    run = played("lab")
    (incident,) = (one for one in run.named("placed") if one["job"] == "incident-1")
    waiting = [one for one in run.named("placed") if one["t"] > incident["t"]]
    assert incident["t"] == 1100  # at once
    assert any(one["class"] == "normal" for one in waiting)
    assert incident["free_after"] < run.scenario.pools[0].reserve + 1


def test_in_the_lab_batch_work_ages_into_the_normal_class() -> None:
    placed = played("lab").named("placed")
    aged = [one for one in placed if "eval" in one["job"] and one["class"] == "normal"]
    assert aged
    assert all(one["t"] >= 300 for one in aged)


# --- the whiteboard -----------------------------------------------------------------------


def test_the_whiteboard_has_a_storm_of_retries_that_circuits_and_backoff_contain() -> None:
    run = played("whiteboard")
    counts = run.counts()
    assert counts["retried", "retry_wait"] > 10
    assert counts["circuit_opened", "circuit_open"] == len(run.named("circuit_closed")) > 1
    assert counts["lost", "worker_lost"] == 2
    assert not run.named("failed")


def test_on_the_whiteboard_code_falls_back_and_an_evaluation_never_does() -> None:
    run = played("whiteboard")
    fell = [one for one in run.named("requeued") if one["reason"] == "fallback"]
    assert {(one["facts"]["model_from"], one["facts"]["model_to"]) for one in fell} >= {
        ("large", "medium")
    }
    assert not [one for one in fell if one["tenant"] == "quality"]


def test_on_the_whiteboard_only_checkpointed_evaluations_make_room() -> None:
    preempted = played("whiteboard").named("preempted")
    assert {one["tenant"] for one in preempted} == {"quality"}
    assert all(one["facts"]["lost_s"] == 0 for one in preempted)
    assert {"incident-b", "security-1"} <= {one["facts"]["victim_of"] for one in preempted}


def test_on_the_whiteboard_one_reviewer_sees_the_security_update_first_and_then_the_feature() -> (
    None
):
    run = played("whiteboard")
    assert [one["job"] for one in run.named("reviewed")] == ["security-1", "feature-1"]
    reviews = [one for one in run.named("placed") if one["executor"] == "reviewer-1"]
    assert reviews[1]["t"] >= 690  # when the first review has ended


def test_on_the_whiteboard_both_sandbox_pools_and_the_quotas_bind() -> None:
    run = played("whiteboard")
    assert {one.pool for one in run.scenario.stations} == {"sandbox-a", "sandbox-b"}
    assert {one["reason"] for one in run.named("deferred")} == {"budget"}
    assert run.named("shed")


# --- 1,000 against 100 --------------------------------------------------------------------


def test_against_a_backlog_of_a_thousand_the_small_tenant_has_half_of_the_first_placements() -> (
    None
):
    run = played("naive")
    first = [one["tenant"] for one in run.named("placed")][:200]
    assert first.count("Org B") == pytest.approx(100, abs=1)
    for rule in RULES.values():
        assert placements(run.scenario, rule, most=200).count("Org B") == 0
    assert "First in line: Org A 200, Org B 0" in run.page
    assert "Fair order with memory (this run): Org A 101, Org B 99" in run.page

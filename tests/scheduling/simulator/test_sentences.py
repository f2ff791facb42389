"""Events of a run in words: every event and reason has them, and no fact is left out."""

import pytest

from scheduling.core.reasons import REASON_SENTENCES
from scheduling.core.types import Reason
from scheduling.simulator.decisions import DECISIVE
from scheduling.simulator.sentences import LEADS, clock, facts_in_words, sentence, span

CONTRACT = [
    "admitted", "queued", "deferred", "denied", "placed", "step_done", "started", "finished",
    "failed", "retried", "preempted", "requeued", "lost", "canceled", "expired", "held", "resumed",
    "reviewed", "shed", "circuit_opened", "circuit_closed", "budget_crossed", "policy",
]  # fmt: skip


@pytest.mark.parametrize("name", [*CONTRACT, "fallback"])
def test_every_event_of_the_contract_has_words_of_its_own(name: str) -> None:
    said = sentence({"event": name, "seq": 1, "t": 0.0, "job": "J-1", "tenant": "acme"})
    assert name in LEADS
    assert "J-1" in said or "acme" in said or "circuit" in said
    assert said.endswith(".")


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_told_by_the_sentence_of_all_surfaces(reason: Reason) -> None:
    event = {"event": "queued", "job": "J-1", "tenant": "acme", "reason": reason.value}
    assert REASON_SENTENCES[reason] in sentence(event)


def test_what_the_log_calls_decisive_has_words() -> None:
    assert set(LEADS) >= DECISIVE


def test_a_waiting_job_is_told_with_its_place_and_what_it_lacks() -> None:
    event = {
        "event": "queued", "job": "A-7", "tenant": "acme", "place": 3, "eta_s": 200.0,
        "reason": "head_waits_for_units", "facts": {"need": 3, "free": 1, "head": "A-7"},
    }  # fmt: skip
    assert sentence(event) == (
        "A-7 of acme waits at place 3, to end in some 3 m 20 s. "
        "It is first in line and waits until enough units are free. "
        "Units needed: 3; units free: 1; first in line is A-7."
    )


def test_a_fact_without_a_phrase_is_told_by_its_name() -> None:
    assert facts_in_words({"odd_thing": [1, 2], "gone": None}) == "odd thing: 1, 2"


def test_moments_and_durations_are_told_in_their_units() -> None:
    words = facts_in_words({"until": 3725.5, "delay_s": 90, "spent": 0.25, "idempotent": True})
    assert words == "until 1:02:05.5; the wait is 1 m 30 s; spent: 0.25; idempotent: yes"


def test_an_unknown_event_or_reason_is_told_by_its_code() -> None:
    said = sentence({"event": "novel", "job": "J", "reason": "unheard_of"})
    assert said == "J: novel. Reason: unheard_of."


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (4.5, "4.5 s"), (59.99, "60 s"), (200, "3 m 20 s"), (7500, "2 h 5 m"),
     (97_200, "1 d 3 h"), (3600, "1 h")],
)  # fmt: skip
def test_spans_are_told_in_the_unit_that_suits_them(seconds: float, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0:00:00"), (59.9996, "0:01:00"), (3661.25, "1:01:01.25")]
)
def test_a_clock_shows_a_fraction_only_where_there_is_one(seconds: float, said: str) -> None:
    assert clock(seconds) == said


def test_an_estimate_is_not_told_as_units() -> None:
    said = facts_in_words({"dimension": "tokens", "need": "500", "held": "20", "spent": "0"})
    assert said == ("counted in tokens; the estimate is 500; held for other jobs: 20; spent: 0")


def test_the_sentence_of_a_verdict_and_the_models_passed_over_are_told() -> None:
    event = {
        "event": "requeued", "job": "J", "tenant": "acme", "reason": "fallback",
        "facts": {"sentence": "So it is.", "passed": [{"model": "m2", "reason": "budget"}]},
    }  # fmt: skip
    assert sentence(event).endswith("So it is. Passed over: model m2 reason budget.")


def test_what_befalls_a_circuit_a_budget_or_a_setting_is_not_told_as_a_job() -> None:
    closed = {"event": "circuit_closed", "reason": "finished", "executor": "gpu-a", "facts": {}}
    assert sentence(closed) == "The circuit of gpu-a closes: work is sent there again."
    lever = {"event": "policy", "do": "pool_budget", "pool": "lab", "facts": {"after": 3}}
    assert sentence(lever) == "Lever pool_budget on pool lab. After: 3."

"""Laws of a run: everything ends once, nothing is overdrawn, the same input gives the same bytes."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.policy.settings import Backfill, Preemption
from scheduling.simulator.scenario import Do, Scenario
from tests.scheduling.simulator.scenes import (
    job,
    lever,
    played,
    policy,
    reviewer,
    scene,
    station,
)

BUDGET = 4
ENDS = ("finished", "failed", "canceled", "denied", "shed", "expired")
RULES = (
    policy(),
    policy(backfill=Backfill.EASY, age_after=20.0),
    policy(preemption=Preemption(enabled=True, min_run_s=2.0)),
)
_TIMES = st.integers(0, 40).map(float)


_TENANTS = st.sampled_from("abc")
_COLUMNS = st.tuples(
    _TENANTS,
    _TIMES,
    st.integers(0, 30).map(float),  # duration
    st.integers(1, BUDGET),
    st.sampled_from(["incident", "normal", "batch"]),
    st.sampled_from([(1, 0), (1, 1), (1, 4), (2, 0)]),  # steps, fails
    st.sampled_from([(False, 0.0, ()), (True, 0.0, ()), (False, 5.0, ()), (False, 0.0, ("j0",))]),
)
_LEVER = st.one_of(
    st.builds(lever, _TIMES, st.just(Do.TENANT_WEIGHT), tenant=_TENANTS, value=st.integers(1, 3)),
    st.builds(lever, _TIMES, st.just(Do.WORKER_LOST), executor=st.just("x")),
    st.builds(lever, _TIMES, st.just(Do.RATE_LIMITED), executor=st.just("x"), value=st.just(9)),
    st.builds(lever, _TIMES, st.just(Do.JOB_CANCEL), job=st.sampled_from(["j0", "j1", "j2"])),
)


def _jobs(rows):
    return [
        job(
            f"j{n}",
            tenant,
            at=at,
            duration=duration,
            cost=cost,
            expected_s=1.0 + duration,
            class_name=class_name,
            steps=steps,
            fails=fails,
            checkpoints=checkpoints,
            review_s=review_s,
            after=after if n else (),
        )
        for n, (
            tenant, at, duration, cost, class_name, (steps, fails), (checkpoints, review_s, after),
        ) in enumerate(rows)
    ]  # fmt: skip


def jobs_drawn():
    return st.lists(_COLUMNS, min_size=1, max_size=10).map(_jobs)


def levers_drawn():
    return st.lists(_LEVER, max_size=3).map(
        lambda found: tuple(sorted(found, key=lambda each: each.at))
    )


def scenario(jobs, levers, rules) -> Scenario:
    return scene(
        jobs, BUDGET, levers=levers, policy=rules, stations=(station(slots=BUDGET), reviewer())
    )


@settings(max_examples=40)
@given(jobs_drawn(), levers_drawn(), st.sampled_from(RULES))
def test_every_job_ends_exactly_once(jobs, levers, rules):
    events, summary = played(scenario(jobs, levers, rules))
    ended = [one["job"] for one in events if one["event"] in ENDS]
    assert sorted(ended) == sorted(one.id for one in jobs)
    assert sum(one["jobs"] for one in summary["tenants"].values()) == len(jobs)


@settings(max_examples=40)
@given(jobs_drawn(), levers_drawn(), st.sampled_from(RULES))
def test_no_more_units_are_in_use_than_there_are(jobs, levers, rules):
    events, _ = played(scenario(jobs, levers, rules))
    placed = [one for one in events if one["event"] == "placed"]
    assert all(0 <= one["free_after"] == one["free_before"] - one["cost"] for one in placed)


@settings(max_examples=40)
@given(jobs_drawn(), levers_drawn(), st.sampled_from(RULES))
def test_events_come_in_time_order_numbered_and_starts_after_the_ends_of_their_instant(
    jobs, levers, rules
):
    events, summary = played(scenario(jobs, levers, rules))
    assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
    assert [one["t"] for one in events] == sorted(one["t"] for one in events)
    assert sum(summary["counts"].values()) == len(events)
    running = set()
    for one in events:
        if one["event"] == "placed":
            assert one["job"] not in running
            running.add(one["job"])
        elif one["event"] in (*ENDS, "step_done", "retried", "requeued", "preempted", "lost"):
            running.discard(one.get("job"))
    assert not running


@settings(max_examples=40)
@given(jobs_drawn(), levers_drawn(), st.sampled_from(RULES))
def test_the_same_scenario_gives_the_same_bytes(jobs, levers, rules):
    first, second = (json.dumps(played(scenario(jobs, levers, rules))) for _ in range(2))
    assert first == second


@settings(max_examples=40)
@given(jobs_drawn(), st.sampled_from(RULES))
def test_what_is_decided_carries_a_reason_and_its_facts(jobs, rules):
    events, _ = played(scenario(jobs, (), rules))
    told = {"queued", "deferred", "denied", "shed", "preempted", "requeued", "retried", "held"}
    for one in events:
        if one["event"] in told:
            assert one["reason"]
            assert one["facts"], one


@pytest.mark.parametrize("until", [0.0, 7.0, 60.0])
def test_a_run_that_is_cut_short_is_the_beginning_of_the_whole(until):
    jobs = [job(f"j{n}", "ab"[n % 2], at=n % 5, duration=7.0, fails=n % 2) for n in range(12)]
    whole, _ = played(scene(jobs, 2))
    cut, _ = played(scene(jobs, 2, until=until))
    assert cut == [one for one in whole if one["t"] <= until]


def test_another_seed_spreads_retries_otherwise():
    failing = scene([job("a1", fails=1)])
    at = [
        [one["t"] for one in played(replace(failing, seed=seed))[0] if one["event"] == "placed"][1]
        for seed in (1, 2)
    ]
    assert at[0] != at[1]

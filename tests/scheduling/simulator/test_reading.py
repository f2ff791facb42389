"""Scenario files become scenarios: every key of the contract, generators, policies, defaults."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from scheduling.core.policy.document import to_dict
from scheduling.core.policy.settings import Backfill, Candidate, Policy, ShareBy
from scheduling.simulator.scenario import BudgetRule, Do, Lever, SimJob

ROOT = Path(__file__).resolve().parents[3]
WHOLE = """
    name: two tenants
    until: 3600
    seed: 7
    policy:
      share_by: turns
      backfill: easy
      age_after: 600
      age_limit: 4
      classes:
        - {name: incident, order: fair, uses_reserve: true, sheddable: false}
        - {name: expedite, order: fifo}
        - {name: normal, order: fair, ages_to: incident_free}
        - {name: batch, sheddable: true}
      retry: {max_attempts: 3, base_s: 1, cap_s: 60, budget_ratio: 0.2, budget_floor: 10}
      fallbacks: [{model: m, to: [m2, m3], quality_min: 2, max_price_ratio: 1.5}]
      preempt: {enabled: true, min_run_s: 30, exempt_after: 5}
    pools:
      - {name: default, budget: 3, reserve: 1}
      - {name: other, budget: 2}
    executors:
      - {name: gpu-a, kind: simulated, pool: other, slots: 3, models: [m], region: eu, weight: 2,
         labels: [sandbox-a], requests_per_min: 60, tokens_per_min: 1000}
      - {name: reviewer-1, kind: human}
    prices: {m: {input: 3, output: 15, cached: 0.3}, m2: {quality: 1}, m3: {quality: 2.5},
             unit_second: 0.001, review_hour: 60}
    tenants:
      - {name: A, weight: 2, max_running: 4, backlog_cap: 9,
         budgets: [{dimension: tokens, limit: 100000, window: day}]}
      - {name: B, max_running: null}
    workflows:
      - {tenant: A, name: coding, cost: 2, expected_s: 60}
    jobs:
      - {id: A1, tenant: A, at: 5, workflow: coding, class: batch, cost: 1, duration: 61,
         expected_s: 62, tokens_in: 3, tokens_out: 4, model: m, deadline: 99, keys: [k],
         after: [B0], max_attempts: 2, steps: 3, checkpoints: true, idempotent: false,
         review_s: 8, workspace: w, labels: [sandbox-a], region: eu, fails: 1, user: u,
         kind: simulated, pool: other}
      - {repeat: 3, id: "B{n}", tenant: B, at: 4, every: 2, duration: 60}
      - {id: C, tenant: 7, at: 4, region: null, deadline: null}
    events:
      - {at: 100, do: tenant_hold, tenant: A}
      - {at: 50, do: tenant_weight, tenant: B, weight: 2}
      - {at: 60, do: pool_budget, pool: default, budget: 9}
      - {at: 61, do: rate_limited, executor: gpu-a, retry_after: 3}
      - {at: 62, do: job_prioritise, job: B2}
      - {at: 63, do: job_prioritise, job: B2, class: incident}
      - {at: 64, do: workflow_cost, tenant: A, workflow: coding, cost: 4}
      - {at: 65, do: worker_lost, job: C}
"""


@pytest.fixture
def whole(folder):
    return folder.read(WHOLE.replace("ages_to: incident_free", "ages_to: null"))


def test_every_key_of_the_policy_is_read_in_the_words_of_the_scenario(whole):
    policy = whole.policy
    assert (policy.share_by, policy.backfill) == (ShareBy.TURNS, Backfill.EASY)
    assert [(rule.name, rule.fifo, rule.uses_reserve) for rule in policy.classes] == [
        ("incident", False, True),
        ("expedite", True, False),
        ("normal", False, False),
        ("batch", False, False),
    ]
    assert policy.preemption.enabled
    assert (policy.preemption.min_run_s, policy.preemption.most_times) == (30, 5)
    assert (policy.retry.cap_s, policy.age_after, policy.age_limit) == (60, 600, 4)


def test_a_stand_in_of_too_low_a_quality_is_left_out(whole):
    assert whole.policy.fallback[0].candidates == (Candidate(model="m3", price_ratio=1.5),)


def test_a_stand_in_of_which_no_quality_is_said_may_be_used(folder):
    scenario = folder.read("policy: {fallbacks: [{model: m, to: [x], quality_min: 3}]}\n")
    assert scenario.policy.fallback[0].candidates == (Candidate(model="x"),)


def test_every_key_of_a_job_is_read(whole):
    job = next(job for job in whole.arrivals() if job.id == "A1")
    assert job == SimJob(
        id="A1",
        tenant="A",
        at=5,
        workflow="coding",
        class_name="batch",
        cost=1,
        duration=61,
        expected_s=62,
        tokens_in=3,
        tokens_out=4,
        model="m",
        deadline=99,
        keys=("k",),
        after=("B0",),
        max_attempts=2,
        steps=3,
        checkpoints=True,
        idempotent=False,
        review_s=8,
        workspace="w",
        labels=frozenset({"sandbox-a"}),
        region="eu",
        fails=1,
        user="u",
        kind="simulated",
        pool="other",
    )


def test_jobs_arrive_by_time_then_by_their_number_in_the_file(whole):
    arrived = [(job.at, job.id) for job in whole.arrivals()]
    assert arrived == [(4, "B0"), (4, "C"), (5, "A1"), (6, "B1"), (8, "B2")]
    assert whole.job_count == 5
    assert [job.id for job in whole.arrivals()] == [name for _, name in arrived]


def test_pools_executors_prices_and_budgets_are_read(whole):
    gpu, reviewer = whole.stations
    assert (gpu.pool, gpu.executor.slots, gpu.executor.weight) == ("other", 3, 2)
    assert (gpu.requests_per_min, gpu.tokens_per_min) == (60, 1000)
    assert (gpu.executor.models, gpu.executor.region) == ({"m"}, "eu")
    assert (reviewer.pool, reviewer.executor.kinds) == ("default", {"human"})
    assert [(pool.id, pool.budget, pool.reserve) for pool in whole.pools] == [
        ("default", 3, 1),
        ("other", 2, 0),
    ]
    assert whole.prices.models["m"].cached == Decimal("0.3")
    assert whole.prices.unit_second == Decimal("0.001")
    budget = BudgetRule(dimension="tokens", limit=Decimal(100000), window="day")
    assert whole.tenants[0].budgets == (budget,)


def test_a_tenant_that_only_a_job_names_has_weight_1(whole):
    assert [(one.name, one.weight) for one in whole.tenants] == [("A", 2), ("B", 1), ("7", 1)]


def test_levers_stand_by_time_with_their_values(whole):
    assert [(one.at, one.do, one.value) for one in whole.levers] == [
        (50, Do.TENANT_WEIGHT, 2),
        (60, Do.POOL_BUDGET, 9),
        (61, Do.RATE_LIMITED, 3),
        (62, Do.JOB_PRIORITISE, ""),
        (63, Do.JOB_PRIORITISE, "incident"),
        (64, Do.WORKFLOW_COST, 4),
        (65, Do.WORKER_LOST, None),
        (100, Do.TENANT_HOLD, None),
    ]
    assert whole.levers[5] == Lever(
        at=64, do=Do.WORKFLOW_COST, tenant="A", workflow="coding", value=4
    )


def test_without_executors_one_offers_all_that_jobs_ask_and_never_binds(folder):
    scenario = folder.read("""
        pools: [{name: default, budget: 3}, {name: other, budget: 1}]
        jobs: [{id: a, tenant: t, model: m, labels: [l], region: eu, kind: chat}]
        events: [{at: 1, do: pool_budget, pool: default, budget: 8},
                 {at: 1, do: executor_down, executor: other}]
    """)
    first, second = (station.executor for station in scenario.stations)
    assert (first.slots, second.slots) == (8, 1)
    assert (first.models, first.labels, first.region) == ({"m"}, {"l"}, "eu")
    assert "chat" in first.kinds


def test_a_scenario_has_the_policys_defaults_but_no_quota_and_no_backlog_cap(folder):
    policy = folder.read("jobs: []\n").policy
    assert [rule.name for rule in policy.classes] == [rule.name for rule in Policy().classes]
    assert all(rule.quota is None for rule in policy.classes)
    assert policy.backlog.workspace == policy.backlog.total == 1_000_000_000
    assert (policy.age_after, policy.share_by) == (1800, ShareBy.COST)


def test_a_class_table_without_normal_takes_its_last_class_for_jobs_that_name_none(folder):
    scenario = folder.read("policy: {classes: [{name: high}, {name: low}]}\n")
    assert scenario.policy.default_class == "low"


def test_a_policy_file_replaces_the_scenarios_policy(folder):
    bare = folder.write("share_by: tokens\n", "bare.yaml")
    keyed = folder.write("name: x\npolicy: {share_by: turns}\n", "keyed.yaml")
    text = "policy: {share_by: cost_time, age_after: 5}\n"
    assert folder.read(text, policy=bare).policy.share_by is ShareBy.TOKENS
    assert folder.read(text, policy=keyed).policy.share_by is ShareBy.TURNS
    assert folder.read(text, policy=bare).policy.age_after == 1800


def test_a_published_policy_is_played_as_it_is(folder):
    published = Policy(number=12, backfill=Backfill.EASY)
    path = folder.write(json.dumps(to_dict(published), indent=1), "published.json")
    assert folder.read("name: x\n", policy=path).policy == published


def test_a_seed_given_replaces_the_scenarios(folder):
    assert folder.read("seed: 3\n").seed == 3
    assert folder.read("seed: 3\n", seed=9).seed == 9


def test_a_json_file_reads_as_the_same_scenario(folder):
    text = '{"pools": [{"name": "p", "budget": 1}],\n\t"jobs":[{"id":"\\ud83d\\ude00","tenant":"t","at":1e1}]}'
    scenario = folder.read(text, "s.json")
    assert [(job.id, job.at) for job in scenario.arrivals()] == [("\U0001f600", 10.0)]


def test_an_anchor_and_a_merge_stand_for_what_they_name(folder):
    scenario = folder.read("""
        jobs:
          - &first {id: a, tenant: t, duration: 5}
          - {<<: *first, id: b}
    """)
    assert [(job.id, job.duration) for job in scenario.arrivals()] == [("a", 5), ("b", 5)]


def test_the_number_of_a_generated_job_stands_in_its_keys_and_dependencies(folder):
    scenario = folder.read("""
        jobs:
          - {repeat: 2, id: "a{n}", tenant: t}
          - {repeat: 2, id: "b{n}", tenant: t, keys: ["k{n}"], after: ["a{n}"]}
    """)
    last = list(scenario.arrivals())[-1]
    assert (last.id, last.keys, last.after) == ("b1", ("k1",), ("a1",))


def test_a_million_generated_jobs_are_given_out_without_being_kept(folder):
    scenario = folder.read('jobs: [{repeat: 1000000, id: "b{n}", tenant: t, every: 0.5}]\n')
    assert scenario.job_count == 1_000_000
    third = [job for job, _ in zip(scenario.arrivals(), range(3), strict=False)][2]
    assert (third.id, third.at) == ("b2", 1.0)


def test_the_example_of_the_manual_is_a_scenario(folder):
    text = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    (folder.path / "log.swf.gz").write_bytes(b"1 0 -1 9 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n")
    scenario = folder.read(example)
    assert scenario.job_count == 102
    assert {one.name for one in scenario.tenants} == {"A", "B", "1"}

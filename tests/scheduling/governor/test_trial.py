"""A trial builds two memories from the rows as a leader would, and changes nothing."""

import time
from dataclasses import replace
from typing import Any

import pytest

from scheduling.controls.policies import policy_draft, policy_publish
from scheduling.controls.pools import pool_dial
from scheduling.controls.trials import policy_simulate
from scheduling.core.policy.document import policy_from_dict
from scheduling.events import valkey_client
from scheduling.governor.boot import book_load, book_of, kept_load
from scheduling.governor.config import config_load
from scheduling.governor.durations import Durations
from scheduling.governor.trial import trial_play
from scheduling.management.commands.policy_trial import trial_run
from scheduling.models import Attempt, Job, JobEvent, PolicyTrial, PolicyVersion
from scheduling.services.trials import trial_take
from tenants.controls import tenant_weight
from tests.scheduling.factories import WHO, make_tenant, make_worker, submit
from tests.scheduling.governor.desk import Desk

HOLDING = {"default_caps": {"tenant": 1}}


@pytest.fixture
def backlog(desk: Desk, pool: Any) -> Desk:
    """Two tenants of jobs of 10 s, one of cost 2 and one of cost 1; two run."""
    pool_dial(pool_id=pool.id, budget=3, **WHO)
    big = make_tenant("big", pool, cost=2, expected_s=10.0)
    small = make_tenant("small", pool, cost=1, expected_s=10.0)
    submit(big, 6, tokens={"input": 0, "output": 2_000_000})
    submit(small, 6, tokens={"input": 0, "output": 1_000_000})
    desk.turn()
    return desk


def played(**body: Any) -> dict[str, Any]:
    number = policy_draft(body=body, note="try", **WHO)
    trial = policy_simulate(number=number, acting_user="root", reason="test")
    return trial_play(trial, client=valkey_client(), now=time.time()).result


def test_the_settings_in_force_move_nothing(backlog):
    found = played()
    assert found["changes"] == []
    everything = found["all"]
    assert everything["jobs"] == 10
    assert everything["moved"]["unmoved"] == 10
    assert everything["movers"] == []
    sides = [value for value in everything.values() if isinstance(value, list) and len(value) == 2]
    pairs = [one for one in sides if not isinstance(one[0], dict)]
    assert len(pairs) >= 8
    assert all(before == after for before, after in pairs)
    assert set(found["pools"]) == {"main"}


def test_shares_by_turns_serve_jobs_alike_and_say_who_waits_longer(backlog):
    found = played(share_by="turns")
    assert found["changes"] == [{"setting": "share_by", "before": "cost", "after": "turns"}]
    tenants = {one["tenant"]: one for one in found["all"]["tenants"]}
    assert tenants["big"]["mean_wait_s"][1] < tenants["big"]["mean_wait_s"][0]
    assert tenants["small"]["mean_wait_s"][1] > tenants["small"]["mean_wait_s"][0]
    assert found["all"]["moved"]["earlier"]["jobs"] > 0
    first = found["all"]["movers"][0]
    assert {first["tenant"], first["workflow"]} <= {"big", "small", "build"}
    assert abs(first["by_s"]) == max(abs(one["by_s"]) for one in found["all"]["movers"])


def test_a_draft_is_forecast_as_a_leader_would_order_it_once_it_is_published(backlog, pool):
    expected = played(share_by="turns", classes=[{"name": "normal"}])
    policy_publish(number=2, note="go", acting_user="root")
    desk = backlog
    assert desk.leader
    again = played(share_by="turns", classes=[{"name": "normal"}])
    assert again["all"]["moved"]["unmoved"] == 10
    for name in ("mean_wait_s", "charge_share", "cost_share", "clear_s"):
        assert again["all"][name][0] == pytest.approx(expected["all"][name][1], abs=2.0)


def test_a_cap_that_a_draft_sets_holds_jobs_back(backlog, pool):
    pool_dial(pool_id=pool.id, budget=9, **WHO)
    everything = played(**HOLDING)["all"]
    assert everything["clear_s"][1] > everything["clear_s"][0]
    assert everything["moved"]["later"]["jobs"] > 0


def test_jobs_of_a_held_tenant_have_no_start_on_either_side(backlog):
    tenant_weight(tenant_id=Job.objects.filter(workflow__tenant__slug="big")[0].tenant_id,
                  weight=0, **WHO)  # fmt: skip
    everything = played()["all"]
    assert everything["without_start"] == [5, 5]
    assert everything["jobs"] == 10


def test_the_spend_is_what_the_jobs_that_start_have_reserved(backlog):
    everything = played()["all"]
    assert everything["spend_per_hour"] == ["15", "15"]
    tenants = {one["tenant"]: one["spend_per_hour"] for one in everything["tenants"]}
    assert tenants == {"big": ["10", "10"], "small": ["5", "5"]}


def test_a_trial_writes_nothing_but_its_own_row(backlog):
    def rows():
        return [
            list(model.objects.order_by("pk").values()) for model in (Job, Attempt, PolicyVersion)
        ] + [JobEvent.objects.count()]

    number = policy_draft(body=HOLDING, note="try", **WHO)
    policy_simulate(number=number, acting_user="root", reason="test")
    before, memory = rows(), book_load(1, time.time()).states
    trial = PolicyTrial.objects.get(id=trial_take(Job.objects.first().submitted_at))
    trial_run(trial)
    trial.refresh_from_db()
    assert (trial.state, trial.against, trial.sentence) == ("done", 1, "")
    assert trial.result["all"]["jobs"] == 10
    assert trial.result["took_s"] >= 0
    assert rows() == before
    assert book_load(1, time.time()).states.keys() == memory.keys()


def test_an_empty_house_has_nothing_to_compare(pool):
    make_worker()
    found = played()
    assert (found["all"], found["pools"]) == (None, {})


def test_a_trial_without_a_policy_in_force_fails_with_a_sentence(backlog):
    number = policy_draft(body={}, note="try", **WHO)
    policy_simulate(number=number, acting_user="root", reason="test")
    trial = PolicyTrial.objects.get(id=trial_take(Job.objects.first().submitted_at))
    trial.body = {"share_by": "dice"}
    trial_run(trial)
    trial.refresh_from_db()
    assert trial.state == "failed"
    assert "share_by" in trial.sentence


def test_the_leader_sends_a_trial_that_was_asked_for_on_its_way(backlog):
    number = policy_draft(body={}, note="try", **WHO)
    policy_simulate(number=number, acting_user="root", reason="test")
    assert "scheduling.trials_run" not in backlog.control
    backlog.leader._try_policies()
    assert backlog.control[-1] == "scheduling.trials_run"


def test_jobs_made_under_the_policy_in_force_are_made_over_as_the_draft_has_them(backlog, pool):
    acme = make_tenant("acme", pool, cost=3)
    submit(acme, 2, job_class="batch")
    kept, now = kept_load(), time.time()
    config = config_load(now=now)
    durations = Durations(config.policy.default_expected_s)
    first = book_of(config, durations, kept, now)
    for body in (
        {},
        {"share_by": "turns"},
        {"share_by": "cost_time", "default_expected_s": 77},
        {"classes": [{"name": "normal"}]},
    ):
        policy = policy_from_dict(body)
        other = config_load(now=now, policy=policy)
        assumed = replace(durations, default=policy.default_expected_s)
        (state,) = book_of(other, assumed, kept, now, like=first).states.values()
        (anew,) = book_of(other, assumed, kept, now).states.values()
        assert dict(state.order.jobs) == dict(anew.order.jobs)
        assert list(state.order.walk_all()) == list(anew.order.walk_all())
        same = sum(first.waiting(row) is state.order.get(row.id) for row, _ in kept.jobs)
        assert (same == len(kept.jobs)) is (body == {})

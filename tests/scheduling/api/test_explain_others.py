"""What an explanation tells of others, what levers would do, and where a job stands in a long order."""

import time
import uuid
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone
from msgspec import structs
from msgspec.structs import replace

from scheduling import snapshot
from scheduling.api import explain
from scheduling.core.admission import Answer, Facts
from scheduling.core.policy.seam import QueuePolicy
from scheduling.core.types import Reason, Verdict
from scheduling.governor import glance
from scheduling.models import Decision, Executor, Job, PolicyVersion, Pool, Worker
from tenants.controls import tenant_weight
from tests.scheduling.api.conftest import Caller, World, caller, person
from tests.scheduling.api.explain_ways import Stage, budget, head_waits
from tests.scheduling.api.test_explain import CASES, stage, told
from tests.scheduling.api.test_queue import header, row
from tests.scheduling.factories import WHO, set_circuit

pytestmark = pytest.mark.django_db

__all__ = ["stage"]
"""The fixture of the table of reasons, at work here too."""


@pytest.fixture
def operator(world: World, django_user_model: Any) -> Caller:
    return person(django_user_model, "op", "operator", None)


@pytest.fixture
def marked(stage: Stage) -> Stage:
    """The other tenant with a mark in all that it has."""
    stage.world.other.slug = stage.world.other.name = "mark-other"
    stage.world.other.save()
    Executor.objects.create(
        slug="mark-executor", pool=stage.world.pool, kind="simulated", provider="simulated",
        job_kinds=["simulated"], slots=1, tenant=stage.world.other,
    )  # fmt: skip
    return stage


def checked(found: dict[str, Any], name: str) -> dict[str, Any]:
    facts: dict[str, Any] = next(one for one in found["checks"] if one["check"] == name)["facts"]
    return facts


def narrow(stage: Stage) -> str:
    """Room for one job at a time: another's runs, another's waits, then mine."""
    Pool.objects.update(budget=2, reserve=0)
    stage.runs(stage.foreign)
    stage.submit(stage.foreign)
    return stage.submit()


@pytest.mark.parametrize("reason", CASES)
def test_no_explanation_names_anything_of_another_tenant(marked, reason):
    name = CASES[reason].make(marked)
    foreign = Job.objects.filter(tenant=marked.world.other)
    text = marked.web.get(f"/jobs/{name}/explain").content.decode()
    assert "mark-" not in text
    for one in foreign:
        assert str(one.id) not in text
        assert str(one.tenant_id) not in text


def test_an_operator_is_told_who_holds_and_who_would_wait_and_others_how_many(marked, operator):
    name = narrow(marked)
    mine, theirs = told(marked.web, name), told(operator, name)
    running, waiting = Job.objects.filter(tenant=marked.world.other).order_by("seq")
    units, seen = checked(mine, "units"), checked(theirs, "units")
    assert [one["job"] for one in seen["held_by"]["named"]] == [str(running.id)]
    assert [one["job"] for one in seen["first"]["named"]] == [str(waiting.id)]
    assert (units["held_by"]["named"], units["first"]["named"]) == ([], [])
    for part in ("held_by", "first"):
        assert {k: v for k, v in units[part].items() if k in ("jobs", "tenants", "units")} == {
            "jobs": 1, "tenants": 1, "units": 2,
        }  # fmt: skip
    assert theirs["forward"][0]["others"]["named"] == ["mark-other"]
    assert "named" not in mine["forward"][0]["others"]


def test_executors_of_others_are_listed_for_operators_alone(marked, operator):
    name = marked.submit()
    shown = [one["executor"] for one in checked(told(marked.web, name), "executors")["executors"]]
    known = checked(told(operator, name), "executors")["executors"]
    assert shown == ["sim"]
    assert {one["executor"]: one["why_not"] for one in known} == {
        "sim": [], "mark-executor": ["not_open"],
    }  # fmt: skip


def test_a_lever_is_told_with_its_effect_and_what_it_costs_others(stage):
    name = narrow(stage)
    prioritise, dial = told(stage.web, name)["forward"]
    assert (prioritise["lever"], prioritise["sets"]) == ("prioritise", {"class": "expedite"})
    assert (prioritise["by"], prioritise["place"], prioritise["sooner_s"]) == ("submitter", 1, 60.0)
    cost = prioritise["others"]
    assert (cost["jobs"], cost["tenants"], cost["mean_s"], cost["own"]["jobs"]) == (1, 1, 60.0, 0)
    assert "from place 2 to place 1" in prioritise["sentence"]
    assert (dial["lever"], dial["sets"], dial["by"]) == ("pool_dial", {"budget": 6}, "operator")
    assert "start at once; no job of others would wait longer" in dial["sentence"]


def test_a_place_tells_turn_aging_and_who_goes_first(stage):
    name = narrow(stage)
    second = stage.submit()
    facts = checked(told(stage.web, second), "order")
    assert (facts["place"], facts["class"], facts["stands_in"]) == (3, "normal", "normal")
    assert facts["ahead"] == {"own": 1, "others": 1, "tenants": 1}
    assert (facts["charge"], facts["weight"], facts["gains"]["class"]) == (2, 1, "critical")
    long_ago = timezone.now() - timedelta(hours=1)
    Job.objects.filter(id=name).update(submitted_at=long_ago)
    aged = checked(told(stage.web, name), "order")
    assert (aged["stands_in"], aged["place"], aged["gains"]) == ("critical", 1, None)


def test_since_when_a_tenant_is_held_is_told_to_all_and_by_whom_to_operators(stage, operator):
    name = stage.submit()
    tenant_weight(tenant_id=stage.world.acme.id, weight=0, acting_user="ann", reason="unpaid")
    mine, theirs = (checked(told(who, name), "hold") for who in (stage.web, operator))
    assert mine["since"] == theirs["since"] is not None
    assert (theirs["by"], theirs["why"]) == ("ann", "unpaid")
    assert "by" not in mine


def test_amounts_of_budgets_that_fit_are_for_those_who_may_see_costs(stage):
    name = budget(stage)
    first = Job.objects.exclude(id=name).get()
    (line,) = checked(told(stage.web, first.id), "budget")["budgets"]
    assert (line["scope"], line["fits"], "limit" in line) == ("tenant", True, False)
    admin = caller(stage.world.web, "tenant_admin")
    (line,) = checked(told(admin, first.id), "budget")["budgets"]
    assert (line["limit"], line["held"], line["asked"]) == ("1.5", "0", "1")


def test_a_denied_job_is_told_whether_it_would_pass_now(stage):
    name = CASES["unpriced_model"].make(stage)
    assert "No price" in checked(told(stage.web, name), "price")["now"]
    denied = stage.submit(cost=9)
    assert "at most 8" in checked(told(stage.web, denied), "size")["now"]
    Pool.objects.update(budget=20)
    assert "submit it again" in checked(told(stage.web, denied), "size")["now"]


@pytest.fixture
def long(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A pool too long to be built whole: two at its front, then two more of mine."""
    monkeypatch.setattr(glance, "WHOLE_MOST", 1)
    monkeypatch.setattr(glance, "FRONT", 2)
    head_waits(stage)  # another's job runs, mine is the first that waits
    return [stage.submit(stage.foreign), stage.submit(), stage.submit()]


def publish(valkey: redis.Redis, world: World, names: list[str], startable: int) -> None:
    rows = [row(uuid.UUID(name), 0, 0, at=n) for n, name in enumerate(names)]
    made = header(world, len(names), startable=startable, at=time.time())
    snapshot.write(valkey, made, snapshot.pack(rows))


def test_in_a_long_order_a_place_is_that_of_the_last_published_one(stage, long, valkey):
    waiting = Job.objects.filter(state="queued").order_by("seq")
    waiting.update(cost=8)
    names = [str(one) for one in waiting.values_list("id", flat=True)]
    publish(valkey, stage.world, names, len(names))
    found = told(stage.web, long[-1])
    facts = checked(found, "order")
    assert (found["reason"], facts["place"], facts["ahead"]["own"]) == ("in_order", 4, 3)
    assert found["order_at"] is not None
    (lever,) = found["forward"]
    assert (lever["place"], lever["sooner_s"], lever["approximate"]) == (1, None, True)
    assert (lever["others"]["own"]["jobs"], lever["others"]["jobs"]) == (3, 0)
    near = told(stage.web, names[0])
    assert (near["reason"], checked(near, "order")["place"]) == ("head_waits_for_units", 1)


def test_a_job_that_the_last_published_order_does_not_hold_has_no_place_yet(stage, long, valkey):
    publish(valkey, stage.world, long[:1], 1)
    found = told(stage.web, long[-1])
    assert (found["reason"], checked(found, "order")["place"]) == ("in_order", None)


def test_a_broker_that_is_away_leaves_an_explanation_without_a_place(stage, long, monkeypatch):
    def refuse(*_args: object, **_more: object) -> None:
        raise redis.ConnectionError

    monkeypatch.setattr(redis.Redis, "get", refuse)
    assert told(stage.web, long[-1])["reason"] == "in_order"
    monkeypatch.setattr(glance, "WHOLE_MOST", 100)
    assert told(stage.web, long[-1])["reason"] == "behind_head"


def test_slots_are_those_that_the_leader_lets_executors_take_ahead(stage, valkey):
    executor = Executor.objects.get()
    Executor.objects.update(slots=200)
    made = header(stage.world, 0, at=time.time())
    ahead = snapshot.ExecutorRow(
        id=str(executor.id), slug="sim", kind="simulated", slots=150, configured_slots=200,
        in_use=0, health="ok", circuit="closed", enabled=True, draining=False, tenant=None,
        models=[],
    )  # fmt: skip
    snapshot.write(valkey, structs.replace(made, executors=[ahead]), snapshot.pack([]))
    Worker.objects.update(threads=5)
    name = stage.submit()
    (one,) = checked(told(stage.web, name), "executors")["executors"]
    assert one["slots"] == 150
    valkey.flushdb()
    (one,) = checked(told(stage.web, name), "executors")["executors"]
    assert one["slots"] == 5


def test_another_tenants_job_reads_like_an_unknown_one(stage):
    name = stage.submit()
    known, unknown = (stage.foreign.get(f"/jobs/{one}/explain") for one in (name, uuid.uuid4()))
    assert known.status_code == unknown.status_code == 404
    assert known.json()["detail"] == unknown.json()["detail"]


def test_without_a_policy_an_explanation_is_unavailable(stage):
    name = stage.submit()
    PolicyVersion.objects.all().update(state="retired")
    tenant_weight(tenant_id=stage.world.acme.id, weight=2, **WHO)  # so that all is read anew
    assert stage.web.get(f"/jobs/{name}/explain").status_code == 503


def test_an_explanation_changes_nothing(stage):
    name = budget(stage)
    before = Job.objects.values().get(id=name)
    told(stage.web, name)
    assert Job.objects.values().get(id=name) == before
    assert Decision.objects.filter(job=name).count() == 1


@pytest.mark.parametrize(("moves", "status"), [(2, 200), (3, 503)])
def test_a_job_that_moves_meanwhile_is_read_anew(stage, monkeypatch, moves, status):
    name, read, times = stage.submit(), explain.scene_of, iter(range(moves))

    def moving(*args: Any, **more: Any) -> Any:
        if next(times, None) is not None:
            raise glance.JobMoved
        return read(*args, **more)

    monkeypatch.setattr(explain, "scene_of", moving)
    assert stage.web.get(f"/jobs/{name}/explain").status_code == status


class Cautious(QueuePolicy):
    """An example: nothing is let in while the house is closed."""

    def admit(self, facts: Facts) -> Answer:
        """Defer everything."""
        return Answer(verdict=Verdict.DEFERRED, reason=Reason.DEADLINE, sentence="Closed today.")


class Closed(Cautious):
    """An example: nothing is let in at all."""

    def admit(self, facts: Facts) -> Answer:
        """Deny everything."""
        return replace(super().admit(facts), verdict=Verdict.DENIED)


@pytest.mark.parametrize(("kind", "status"), [(Cautious, "waits"), (Closed, "fails")])
def test_a_rule_of_the_house_that_no_check_knows_speaks_before_readmission(
    stage, settings, kind, status
):
    settings.QUEUE_POLICY = f"{Cautious.__module__}.Cautious"
    name = stage.submit()
    settings.QUEUE_POLICY = f"{kind.__module__}.{kind.__qualname__}"
    found = told(stage.web, name)
    spoke = next(one for one in found["checks"] if one["reason"])
    assert (spoke["check"], spoke["status"]) == ("readmission", status)
    assert (spoke["sentence"], spoke["facts"]["then"]["verdict"]) == ("Closed today.", "deferred")
    assert told(stage.web, stage.submit())["sentence"] == "Closed today."


def test_a_job_paused_at_its_submission_is_so_since_then(stage):
    name = stage.submit(paused=True)
    found = told(stage.web, name)
    assert checked(found, "pause") == {
        "since": stage.web.get(f"/jobs/{name}").json()["submitted_at"]
    }


def test_an_end_of_draining_helps_and_the_mending_of_a_circuit_is_no_lever(stage):
    name = stage.submit()
    Executor.objects.update(draining=True)
    assert [one["lever"] for one in told(stage.web, name)["forward"]] == ["executor_undrain"]
    until = timezone.now() + timedelta(minutes=5)
    Executor.objects.update(draining=False)
    set_circuit("open", until)
    found = told(stage.web, name)
    (one,) = checked(found, "executors")["executors"]
    assert (one["circuit"], one["circuit_until"] is not None, found["forward"]) == (
        "open",
        True,
        [],
    )
    assert (found["reason"], one["why_not"]) == ("circuit_open", ["circuit"])
    (shown,) = stage.web.get("/executors").json()
    assert shown["circuit"] == "open"
    assert shown["circuits"] == [{"model": "", "state": "open", "until": shown["circuit_until"]}]


def test_where_threads_are_short_more_slots_are_no_lever(stage):
    Worker.objects.update(threads=1)
    stage.runs(stage.foreign)
    found = told(stage.web, stage.submit())
    assert (found["reason"], found["forward"]) == ("executor_busy", [])


def test_a_job_in_the_first_class_has_no_higher_one_to_go_to(stage):
    head_waits(stage)
    stage.submit(stage.foreign)
    last = stage.submit(**{"class": "expedite"})
    second = told(stage.web, stage.submit(**{"class": "expedite"}))
    assert [one["lever"] for one in told(stage.web, last)["forward"]] == ["pool_dial"]
    assert second["reason"] == "behind_head"
    assert [one["lever"] for one in second["forward"]] == ["pool_dial"]


def test_a_lost_order_leaves_a_job_of_a_long_pool_without_a_place(stage, long, valkey):
    publish(valkey, stage.world, long, len(long))
    (rows,) = valkey.scan_iter(snapshot.PREFIX + "*:1:1")
    valkey.delete(rows)
    assert checked(told(stage.web, long[-1]), "order")["place"] is None

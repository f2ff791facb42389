"""Levers over the API: effect, audit, undo, who may, what others are told, bad input."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from scheduling.models import Executor, Job, Pool, Workflow
from tenants.models import AuditEntry, Tenant, Workspace
from tests.scheduling.api.conftest import Caller, World, caller, job, person

pytestmark = pytest.mark.django_db

WHY = {"reason": "test"}


@pytest.fixture
def root(world: World, django_user_model: Any) -> Caller:
    """An operator."""
    return person(django_user_model, "root", "operator", None)


@pytest.fixture
def boss(world: World, django_user_model: Any) -> Caller:
    """An admin of acme."""
    return person(django_user_model, "boss", "tenant_admin", world.acme)


def submit(client: Caller, **more: Any) -> str:
    return str(client.post("/jobs", job(**more)).json()["id"])


SETTINGS: dict[str, tuple[str, dict[str, Any], dict[str, Any], Callable[[], Any]]] = {
    "tenant weight": (
        "/tenants/acme/weight", {"weight": 3}, {"weight": 1},
        lambda: Tenant.objects.get(slug="acme").weight,
    ),
    "tenant hold": (
        "/tenants/acme/weight", {"weight": 0}, {"weight": 1},
        lambda: Tenant.objects.get(slug="acme").held,
    ),
    "tenant limits": (
        "/tenants/acme/limits", {"max_running": 2}, {"max_running": None},
        lambda: Tenant.objects.get(slug="acme").max_running,
    ),
    "workspace weight": (
        "/workspaces/acme/web/weight", {"weight": 4}, {"weight": 1},
        lambda: Workspace.objects.get(slug="web").weight,
    ),
    "workspace limits": (
        "/workspaces/acme/web/limits", {"max_running": 2}, {"max_running": None},
        lambda: Workspace.objects.get(slug="web").max_running,
    ),
    "workflow cost": (
        "/workflows/acme/build/cost", {"cost": 3}, {"cost": 2},
        lambda: Workflow.objects.get(tenant__slug="acme").cost,
    ),
    "workflow limits": (
        "/workflows/acme/build/limits", {"max_running": 2}, {"max_running": None},
        lambda: Workflow.objects.get(tenant__slug="acme").max_running,
    ),
    "dial": (
        "/pools/main/dial", {"budget": 4}, {"budget": 10, "reserve": 2},
        lambda: Pool.objects.values_list("budget", "reserve").get(),
    ),
    "capacity": (
        "/executors/sim/capacity", {"slots": 3}, {"slots": 10},
        lambda: Executor.objects.get().slots,
    ),
}  # fmt: skip
SWITCHES = {
    "/executors/sim/disable": ("/executors/sim/enable", "enabled", False),
    "/executors/sim/drain": ("/executors/sim/undrain", "draining", True),
}
ADMINS = {"workspace weight", "workspace limits", "workflow limits"}
"""The settings that a tenant's admin may change."""


@pytest.mark.parametrize("case", SETTINGS.values(), ids=SETTINGS)
def test_a_setting_is_changed_audited_and_undone(root: Caller, case: Any) -> None:
    path, to, back, read = case
    before = read()
    answer = root.post(path, to | WHY)
    assert answer.status_code == 200, answer.json()
    told = answer.json()
    entry = AuditEntry.objects.get(number=told["control"])
    assert read() != before
    assert (entry.actor, entry.reason) == ("root", "test")
    assert (told["before"], told["after"], told["reason"]) == (entry.before, entry.after, "test")
    assert told["before"] != told["after"]
    assert root.post(path, back | WHY).json()["after"] == told["before"]
    assert read() == before


CAPS = [path for path, to, _, _ in SETTINGS.values() if "max_running" in to]


@pytest.mark.parametrize("path", CAPS)
def test_a_cap_is_told_where_it_is_set(root: Caller, path: str) -> None:
    assert root.get(path).json() == {"max_running": None}
    root.post(path, {"max_running": 2} | WHY)
    assert root.get(path).json() == {"max_running": 2}


@pytest.mark.parametrize("path", CAPS)
def test_a_cap_is_told_to_who_sees_what_it_bounds_as_a_whole(
    world: World, foreign: Caller, django_user_model: Any, path: str
) -> None:
    Tenant.objects.update(max_running=3)
    Workflow.objects.update(max_running=3)
    Workspace.objects.update(max_running=3)
    viewer = person(django_user_model, "vera", "viewer", world.acme)
    payer = person(django_user_model, "bill", "billing_viewer", world.acme)
    within = 200 if "/workspaces/" in path else 403
    seen = [(viewer, 200), (payer, 404), (foreign, 404), (Caller(), 401),
            (caller(world.web, "viewer"), within),
            (caller(world.ops), 404 if within == 200 else 403)]  # fmt: skip
    for who, status in seen:
        answer = who.get(path)
        assert answer.status_code == status
        assert (answer.json() == {"max_running": 3}) == (status == 200)


@pytest.mark.parametrize("path", SWITCHES)
def test_a_switch_is_thrown_audited_and_undone(root: Caller, path: str) -> None:
    undo, column, value = SWITCHES[path]
    told = root.post(path, WHY).json()
    assert (told["before"], told["after"]) == ({column: not value}, {column: value})
    assert getattr(Executor.objects.get(), column) is value
    assert root.post(undo, WHY).json()["after"] == {column: not value}
    assert getattr(Executor.objects.get(), column) is not value


@pytest.mark.parametrize("name", SETTINGS)
def test_who_may_change_a_setting(world: World, boss: Caller, name: str) -> None:
    path, to, _, read = SETTINGS[name]
    before = read()
    answer = boss.post(path, to | WHY)
    assert answer.status_code == (200 if name in ADMINS else 403)
    if name not in ADMINS:
        assert "Only an operator" in answer.json()["detail"]
        assert read() == before
    for role in ("tenant_admin", "submitter", "viewer"):
        assert caller(world.web, role).post(path, to | WHY).status_code == 403


@pytest.mark.parametrize("name", [name for name in SETTINGS if "acme" in SETTINGS[name][0]])
def test_another_tenants_settings_read_like_unknown_ones(
    world: World, django_user_model: Any, name: str
) -> None:
    other = person(django_user_model, "eve", "tenant_admin", world.other)
    path, to, _, read = SETTINGS[name]
    before = read()
    known = other.post(path, to | WHY)
    unknown = other.post(path.replace("acme", "zzz"), to | WHY)
    assert known.status_code == unknown.status_code == 404
    assert known.json()["detail"] == unknown.json()["detail"]
    assert read() == before


def test_another_tenants_executor_reads_like_an_unknown_one(
    world: World, foreign: Caller, root: Caller
) -> None:
    Executor.objects.create(
        slug="own", tenant=world.acme, pool=world.pool, kind="simulated", provider="simulated",
        job_kinds=["simulated"], slots=1,
    )  # fmt: skip
    assert foreign.post("/executors/own/drain", WHY).status_code == 404
    assert foreign.post("/executors/sim/drain", WHY).status_code == 403
    assert root.post("/executors/own/drain", WHY).json()["tenant"] == "acme"


def test_draining_may_stop_what_can_go_on_elsewhere(root: Caller, world: Any) -> None:
    answer = root.post("/executors/sim/drain", {"preempt": True} | WHY)
    assert answer.json()["after"] == {"draining": True, "drain_stops": True}
    assert root.post("/executors/sim/undrain", WHY).json()["after"]["drain_stops"] is False


@pytest.mark.parametrize("path", ["/pools/zzz/dial", "/executors/zzz/drain",
                                  "/tenants/zzz/weight", "/workspaces/acme/zzz/weight",
                                  "/workflows/acme/zzz/cost"])  # fmt: skip
def test_what_is_not_there_is_a_404(root: Caller, path: str) -> None:
    assert root.post(path, WHY).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "field", "words"),
    [
        ("/tenants/acme/weight", {"weight": 1001}, "weight", "1000"),
        ("/tenants/acme/weight", {"weight": "3"}, "weight", "whole number"),
        ("/tenants/acme/weight", {"weight": True}, "weight", "whole number"),
        ("/tenants/acme/weight", {}, "weight", "whole number"),
        ("/tenants/acme/weight", {"weight": 1, "wait": 1}, "wait", "known are"),
        ("/tenants/acme/limits", {}, "max_running", "null"),
        ("/tenants/acme/limits", {"max_running": 0}, "max_running", "hold"),
        ("/workspaces/acme/web/weight", {"weight": 0}, "weight", "only a tenant"),
        ("/workflows/acme/build/cost", {"cost": 0}, "cost", "1 to"),
        ("/pools/main/dial", {}, "budget", "Give a budget"),
        ("/pools/main/dial", {"budget": 1}, "reserve", "0 to the budget"),
        ("/executors/sim/capacity", {"slots": 0}, "slots", "drain it"),
        ("/executors/sim/drain", {"slots": 0}, "slots", "no field"),
        ("/executors/sim/drain", {"preempt": 1}, "preempt", "true or false"),
    ],
)
def test_bad_input_names_the_field_the_limit_and_what_to_do(
    root: Caller, path: str, body: dict[str, Any], field: str, words: str
) -> None:
    count = AuditEntry.objects.count()
    answer = root.post(path, body | WHY)
    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    assert words in error["sentence"]
    assert AuditEntry.objects.count() == count


@pytest.mark.parametrize("reason", [None, "", "  ", "x" * 501, 7])
def test_every_lever_needs_a_reason(root: Caller, reason: Any) -> None:
    answer = root.post("/tenants/acme/weight", {"weight": 2, "reason": reason})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "reason"


def test_a_repeat_with_the_same_key_changes_nothing_more(root: Caller) -> None:
    first = root.post("/pools/main/dial", {"budget": 4} | WHY, Idempotency_Key="one")
    again = root.post("/pools/main/dial", {"budget": 4} | WHY, Idempotency_Key="one")
    assert again.json() == first.json()
    assert again["Idempotent-Replayed"] == "true"
    assert AuditEntry.objects.filter(action="pool_dial").count() == 1


def test_the_dial_turns_before_there_is_any_workspace(root: Caller) -> None:
    Workspace.objects.all().delete()
    assert root.post("/pools/main/dial", {"budget": 4} | WHY).json()["after"]["budget"] == 4


# --- jobs ----------------------------------------------------------------------------------------


def test_a_job_is_moved_paused_and_resumed_by_its_submitter(web: Caller) -> None:
    one = submit(web)
    moved = web.post(f"/jobs/{one}/prioritise", {"class": "expedite"} | WHY).json()
    assert (moved["before"], moved["after"]) == ({"class": "normal"}, {"class": "expedite"})
    paused = web.post(f"/jobs/{one}/pause", WHY).json()
    assert Job.objects.values_list("job_class", "paused").get() == ("expedite", True)
    assert web.post(f"/jobs/{one}/pause", WHY).json()["control"] is None
    assert web.post(f"/jobs/{one}/resume", WHY).json()["after"] == {"paused": False}
    assert AuditEntry.objects.get(number=paused["control"]).target_id == one


def test_an_ended_job_is_put_back_and_told_what_it_loses(web: Caller) -> None:
    one = submit(web)
    web.post(f"/jobs/{one}/cancel")
    told = web.post(f"/jobs/{one}/requeue", WHY).json()
    assert (told["before"]["state"], told["after"]["state"]) == ("canceled", "deferred")
    assert told["lost"] == ["Its place: it waits anew from now on."]
    assert web.get(f"/jobs/{one}").json()["reason"] == "requeued"


@pytest.mark.parametrize(
    ("action", "more", "state", "code"),
    [("pause", {}, "running", "job_running"), ("resume", {}, "done", "job_ended"),
     ("prioritise", {"class": "batch"}, "running", "job_running"),
     ("requeue", {}, "running", "job_running"), ("requeue", {}, "queued", "job_waits")],
)  # fmt: skip
def test_a_job_that_cannot_take_a_lever_says_why(
    web: Caller, action: str, more: dict[str, Any], state: str, code: str
) -> None:
    one = submit(web)
    over = timezone.now() if state == "done" else None
    Job.objects.update(state=state, fence=1, finished_at=over)
    answer = web.post(f"/jobs/{one}/{action}", more | WHY)
    assert (answer.status_code, answer.json()["code"]) == (409, code)
    assert answer.json()["state"] == state


def test_a_class_is_asked_for_by_whom_the_policy_names(
    web: Caller, boss: Caller, root: Caller
) -> None:
    one = submit(web)
    asked = {who: who.post(f"/jobs/{one}/prioritise", {"class": "incident"} | WHY)
             for who in (web, boss, root)}  # fmt: skip
    assert [answer.status_code for answer in asked.values()] == [403, 403, 200]
    assert "you may ask for: expedite, normal, batch" in asked[web].json()["detail"]
    assert web.post(f"/jobs/{one}/prioritise", {"class": "zzz"} | WHY).status_code == 400
    assert web.post(f"/jobs/{one}/prioritise", WHY).json()["errors"][0]["field"] == "class"


def test_a_quota_is_told_and_an_operator_stands_above_it(web: Caller, root: Caller) -> None:
    jobs = [submit(web) for _ in range(6)]
    for one in jobs[:5]:
        assert web.post(f"/jobs/{one}/prioritise", {"class": "expedite"} | WHY).status_code == 200
    full = web.post(f"/jobs/{jobs[5]}/prioritise", {"class": "expedite"} | WHY)
    assert (full.status_code, full.json()["code"]) == (409, "class_quota_full")
    answer = root.post(f"/jobs/{jobs[5]}/prioritise", {"class": "expedite"} | WHY)
    assert answer.status_code == 200


@pytest.mark.parametrize("action", ["prioritise", "pause", "resume", "requeue"])
def test_who_may_act_on_a_job(world: World, web: Caller, foreign: Caller, action: str) -> None:
    one = submit(web)
    body = WHY | ({"class": "batch"} if action == "prioritise" else {})
    for role in ("viewer", "reviewer"):
        assert caller(world.web, role).post(f"/jobs/{one}/{action}", body).status_code == 403
    known = foreign.post(f"/jobs/{one}/{action}", body)
    unknown = foreign.post(f"/jobs/{uuid.uuid4()}/{action}", body)
    assert known.status_code == unknown.status_code == 404
    assert known.json()["detail"] == unknown.json()["detail"]
    assert caller(world.ops).post(f"/jobs/{one}/{action}", body).status_code == 404
    assert web.post(f"/jobs/{one}/{action}", {}).json()["errors"][0]["field"] in ("reason", "class")


def test_many_jobs_are_managed_together(web: Caller) -> None:
    jobs = [submit(web) for _ in range(3)]
    Job.objects.filter(id=jobs[1]).update(state="running", fence=1)
    told = web.post("/jobs/manage", {"action": "pause", "ids": jobs} | WHY).json()
    assert (told["action"], told["changed"]) == ("pause", 2)
    assert [row["job"] for row in told["results"]] == jobs
    assert told["results"][1]["refused"]["code"] == "job_running"
    assert told["control"] == told["results"][2]["control"]
    for action in ("resume", "cancel", "requeue"):
        answer = web.post("/jobs/manage", {"action": action, "ids": [jobs[0]]} | WHY).json()
        assert answer["changed"] == 1, answer
    body = {"action": "prioritise", "class": "expedite", "ids": [jobs[2]]} | WHY
    assert web.post("/jobs/manage", body).json()["changed"] == 1


def test_managing_many_is_all_or_nothing_on_permission(
    world: World, web: Caller, foreign: Caller, django_user_model: Any
) -> None:
    mine, theirs = submit(web), submit(foreign)
    both = {"action": "pause", "ids": [mine, theirs]} | WHY
    assert web.post("/jobs/manage", both).status_code == 404
    reader = caller(world.web, "viewer")
    assert reader.post("/jobs/manage", both | {"ids": [mine]}).status_code == 403
    assert not Job.objects.filter(paused=True).exists()
    operator = person(django_user_model, "root", "operator", None)
    assert operator.post("/jobs/manage", both).json()["changed"] == 2
    assert set(AuditEntry.objects.filter(action="job_pause").values_list("tenant__slug", flat=True)
               ) == {"acme", "other"}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "field"),
    [({"action": "nope", "ids": [str(uuid.uuid4())]}, "action"), ({"action": "pause"}, "ids"),
     ({"action": "pause", "ids": ["x"]}, "ids"), ({"action": "pause", "ids": []}, "ids"),
     ({"action": "pause", "ids": [1], "class": "batch"}, "class"), ({"ids": []}, "action")],
)  # fmt: skip
def test_bad_bulk_input_names_its_field(web: Caller, body: dict[str, Any], field: str) -> None:
    answer = web.post("/jobs/manage", body | WHY)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


# --- the audit -----------------------------------------------------------------------------------


def test_the_audit_shows_each_what_concerns_it(
    world: World, root: Caller, boss: Caller, web: Caller, foreign: Caller
) -> None:
    one, theirs = submit(web), submit(foreign)
    root.post("/pools/main/dial", {"budget": 5} | WHY)
    root.post("/tenants/acme/weight", {"weight": 2} | WHY)
    web.post(f"/jobs/{one}/pause", WHY)
    foreign.post(f"/jobs/{theirs}/pause", WHY)

    def seen(who: Caller, **query: Any) -> list[tuple[str, str | None]]:
        rows = who.get("/audit", **query).json()["results"]
        return [(row["action"], row["tenant"]) for row in rows if row["reason"] == "test"
                and row["action"] != "key_issue"]  # fmt: skip

    pause, weight, dial = ("job_pause", "acme"), ("tenant_weight", "acme"), ("pool_dial", None)
    assert seen(root) == [("job_pause", "other"), pause, weight, dial]
    assert seen(boss) == [pause, weight]
    assert seen(web) == [pause]
    assert seen(foreign) == [("job_pause", "other")]
    assert seen(root, action="tenant_weight") == [weight]
    assert seen(root, target_id=one) == [pause]
    assert seen(root, tenant="other") == [("job_pause", "other")]
    assert boss.get("/audit", tenant="other").status_code == 404
    assert web.get("/audit", since="x").status_code == 400


def test_the_audit_is_paged_by_its_number(root: Caller) -> None:
    for weight in range(2, 7):
        root.post("/tenants/acme/weight", {"weight": weight} | WHY)
    first = root.get("/audit", page_size=3, action="tenant_weight").json()
    second = root.get("/audit", page_size=3, action="tenant_weight", cursor=first["next_cursor"])
    weights = [row["after"]["weight"] for row in first["results"] + second.json()["results"]]
    assert weights == [6, 5, 4, 3, 2]
    assert second.json()["next_cursor"] is None


def test_a_session_needs_its_token_to_pull_a_lever(root: Caller) -> None:
    root.client.handler.enforce_csrf_checks = True
    assert root.post("/tenants/acme/weight", {"weight": 2} | WHY).status_code == 403
    assert Tenant.objects.get(slug="acme").weight == 1

"""A walk of all routes, sockets and levers with each role, and with another tenant's admin.

The table in `tests.roles_table` says what each is answered. An address, a method or a lever that is
not in it fails here, so that none is added without a thought of who may use it.
"""

import inspect
import json
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, resolve
from django.utils import timezone

import billing.services
import scheduling.api
import scheduling.cockpit
import scheduling.controls
import tenants
from billing.services.escalations import Increase, budget_escalate
from billing.services.webhooks import webhook_add
from scheduling.cockpit import consumer
from scheduling.cockpit.feed import Feed
from scheduling.cockpit.limits import SocketCount
from scheduling.cockpit.routing import socket_application
from scheduling.controls.jobs import jobs_cancel, jobs_pause
from scheduling.controls.policies import policy_draft
from scheduling.controls.raises import LimitIncrease, limit_raise
from scheduling.models import Executor, Job, PolicyTrial, PolicyVersion
from scheduling.services.reviews import review_claim
from tenants.controls import control_number
from tenants.ids import new_id
from tenants.limits import workspace_limit
from tenants.models import AuditEntry, Tenant, Workspace
from tenants.services import member_add, workspace_create
from tests.roles_table import CALLERS, CALLS, LEVERS, NO_ADDRESS, SOCKETS, Call
from tests.scheduling.cockpit.conftest import Browser, session_of
from tests.scheduling.factories import (
    WHO,
    make_budget,
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_reviewers,
    make_tenant,
    make_workflow,
    place,
    submit,
)

BACKEND = "django.contrib.auth.backends.ModelBackend"
LOGIN = "/admin/login/"


@dataclass
class World:
    """The jobs of hush/hush-web, the names that only its people may read, and the callers."""

    web: Workspace
    ids: dict[str, str]
    clients: dict[str, Client]

    @property
    def names(self) -> list[str]:
        return ["hush-web", str(self.web.id), *(one for one in self.ids.values() if len(one) == 36)]


@pytest.fixture(autouse=True)
def _static_root(settings: Any) -> None:
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


def scene() -> Workspace:
    """Make the tenants and the shared things; return the workspace that is walked."""
    for _ in range(2):
        make_policy()
    policy_draft(body={}, note="third", **WHO)
    make_price(output="1")
    pool = make_pool("main")
    make_executor(pool, "main-sim")
    make_reviewers(pool)
    make_tenant("other", pool)
    hush = make_tenant("hush", pool).tenant
    make_workflow(hush, pool, "hush-build")
    workspace_create(tenant=hush, slug="hush-ops", name="Ops", **WHO)
    web = workspace_create(tenant=hush, slug="hush-web", name="Web", **WHO)
    make_executor(pool, "hush-web-sim")
    Executor.objects.filter(slug="hush-web-sim").update(tenant=hush, workspace=web)
    return web


def people() -> dict[str, Any]:
    """Make one user of each column but the first."""
    hush, other = (Tenant.objects.get(slug=slug) for slug in ("hush", "other"))
    ops = Workspace.objects.get(slug="hush-ops")
    users = {name: get_user_model().objects.create_user(name) for name in CALLERS[1:]}
    member_add(user=users["operator"], role="operator", **WHO)
    member_add(user=users["sister"], role="tenant_admin", tenant=hush, workspace=ops, **WHO)
    member_add(user=users["foreigner"], role="tenant_admin", tenant=other, **WHO)
    for role in CALLERS[2:7]:
        member_add(user=users[role], role=role, tenant=hush, **WHO)
    return users


def things(web: Workspace) -> dict[str, str]:
    """Make what the addresses name by an id; return the ids by the words of the table."""
    jobs = [job.id for job in submit(web, 3, workflow="hush-build")]
    now = timezone.now()
    jobs_pause(job_ids=[jobs[1]], **WHO)
    jobs_cancel(job_ids=[jobs[2]], now=now, **WHO)
    reviews = [lying(job) for job in submit(web, 2, workflow="hush-build", review=True)]
    review_claim(job_id=reviews[1], reviewer="somebody", now=now)
    budget = make_budget(web, "5", scope="workspace", scope_id=web.id)
    increase = Increase(extra=Decimal(1), ends_at=now + timedelta(hours=1))
    raised = budget_escalate(budget_id=budget, increase=increase, now=now, **WHO)
    workspace_limit(workspace_id=web.id, max_running=9, **WHO)
    more = LimitIncrease(extra=1, ends_at=increase.ends_at)
    subject = ("workspace", str(web.id), "running")
    uplift = limit_raise(subject=subject, increase=more, now=now, **WHO)
    url = "https://hush-web.example.org/"
    made = {
        "JOB": jobs[0],
        "PAUSED": jobs[1],
        "ENDED": jobs[2],
        "REVIEW": reviews[0],
        "TAKEN": reviews[1],
        "BUDGET": budget,
        "RAISE": raised.id,
        "UPLIFT": uplift.id,
        "HOOK": webhook_add(tenant_id=web.tenant_id, url=url, **WHO).endpoint.id,
        "DRAFT": PolicyVersion.objects.get(state="draft").number,
        "RETIRED": PolicyVersion.objects.filter(state="retired")[0].number,
        "TRIAL": PolicyTrial.objects.create(number=1, body={}, state="failed", asked_by="o").id,
    }
    return {name: str(one) for name, one in made.items()} | {"SOON": str(increase.ends_at)}


def lying(job: Job) -> Any:
    """Put a job before the reviewers; return its id."""
    Job.objects.filter(id=job.id).update(phase="review", result={"text": "done"})
    place(job, executor=Executor.objects.get(kind="human"), cost=0, job_class="review")
    return job.id


@pytest.fixture
def world(db: None) -> World:
    web = scene()
    clients = {name: Client(raise_request_exception=False) for name in CALLERS}
    for name, user in people().items():
        clients[name].force_login(user, backend=BACKEND)
    return World(web=web, ids=things(web), clients=clients)


def routes(patterns: list[Any], before: str = "") -> Iterator[tuple[str, URLPattern]]:
    """Yield every route below the patterns, as it is written."""
    for one in patterns:
        written = before + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from routes(one.url_patterns, written)
        else:
            yield written, one


def methods(pattern: URLPattern) -> set[str]:
    """Return the methods that a view answers: those of its class, or GET of a function."""
    view = getattr(pattern.callback, "cls", None) or getattr(pattern.callback, "view_class", None)
    if view is None:
        return {"GET"}
    plain = set(view.http_method_names) - {"head", "options", "trace"}
    return {name.upper() for name in plain if hasattr(view, name)}


def address(call: Call, ids: dict[str, str]) -> str:
    return f"/{replaced(call.route, ids)}"


def test_every_route_and_method_is_in_the_table():
    there = {
        (route, method)
        for route, pattern in routes(get_resolver().url_patterns)
        if not route.startswith("admin/")
        for method in methods(pattern)
    }
    some = str(new_id())
    ids = dict.fromkeys(
        ("JOB", "PAUSED", "ENDED", "REVIEW", "TAKEN", "BUDGET", "RAISE", "UPLIFT", "HOOK", "TRIAL"),
        some,
    )
    ids |= {"DRAFT": "2", "RETIRED": "1"}
    walked = {(resolve(address(call, ids)).route, call.method) for call in CALLS}
    framework = {("login/", "POST"), ("login/", "PUT")}  # the same for everybody
    assert there - walked == framework


def test_every_row_has_an_answer_for_every_caller():
    rows = [call.answers for call in CALLS] + list(SOCKETS.values())
    assert [row for row in rows if len(row.split()) != len(CALLERS)] == []


@pytest.mark.slow
def test_each_caller_is_answered_as_the_table_says(world):
    expected, found = {}, {}
    for number, call in enumerate(CALLS):
        row = f"{number} {call.name}"
        expected[row] = dict(zip(CALLERS, call.answers.split(), strict=True))
        found[row] = {name: ask(world, call, name) for name in CALLERS}
    assert found == expected


def ask(world: World, call: Call, name: str) -> str:
    """Make a call, undo it, and return its status, with a + when the answer names what is hush's.

    Who is refused changes nothing; who is not leaves the entry in the audit that the table names.
    """
    path, before = address(call, world.ids), control_number()
    with transaction.atomic():
        answer = send(world, call, world.clients[name], path)
        after = control_number()
        allowed = answer.status_code in (200, 201, 202)
        if call.action and allowed:
            entry = AuditEntry.objects.get(number=after)
            assert (entry.action, entry.actor) == (call.action, name)
        assert (after > before) == (allowed and bool(call.action)), f"{name} changed something"
        transaction.set_rollback(True)
    said = text_of(answer).replace(path, "")
    if name == "foreigner":
        assert "hush" not in said
    return f"{answer.status_code}{'+' if any(one in said for one in world.names) else ''}"


def send(world: World, call: Call, client: Client, path: str) -> Any:
    if call.method == "GET":
        return client.get(path, call.query)
    return client.generic(call.method, path, told(world, call), content_type="application/json")


def told(world: World, call: Call) -> str:
    """Return a call's body, with ids for the words that stand for them."""
    body = {name.rstrip("_"): value for name, value in (call.body or {}).items()}
    return replaced(json.dumps(body), {f'"{word}"': f'"{one}"' for word, one in world.ids.items()})


def text_of(answer: Any) -> str:
    parts = answer.streaming_content if answer.streaming else [answer.content]
    return b"".join(parts).decode()


@pytest.mark.slow
def test_what_is_anothers_reads_like_what_is_not_there(world):
    """The same answer, word for word, but for the name that was asked for."""
    nowhere = {
        "hush-web-sim": "void-a",
        "hush-build": "void-b",
        "hush-web": "void-c",
        "hush": "void",
    }
    nowhere |= {one: str(new_id()) for one in world.ids.values() if len(one) == 36}
    client, compared = world.clients["foreigner"], 0
    for call in CALLS:
        path = address(call, world.ids)
        void = Call(method=call.method, route=replaced(path, nowhere)[1:], answers="",
                    body=json.loads(replaced(told(world, call), nowhere)),
                    query=json.loads(replaced(json.dumps(call.query), nowhere)))  # fmt: skip
        if call.answers.split()[-1] != "404" or void == call:
            continue
        real = send(world, call, client, path)
        fake = send(world, void, client, f"/{void.route}")
        assert real.status_code == fake.status_code == 404, call.name
        assert replaced(text_of(real), nowhere) == text_of(fake)
        compared += 1
    assert compared > 30


def replaced(text: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        text = text.replace(name, other)
    return text


@pytest.mark.slow
def test_the_admin_sends_everybody_who_is_not_staff_to_its_login(world):
    open_to_all = {LOGIN.strip("/") + "/", "admin/logout/"}
    found = {route for route, _ in routes(get_resolver("telemachus.urls").url_patterns)
             if route.startswith("admin/")} - open_to_all  # fmt: skip
    assert len(found) > 50
    for route in sorted(found):
        path = "/" + route.replace("<path:content_type_id>", "1").replace("<path:object_id>", "1")
        path = path.replace("(?P<url>.*)$", "x").replace("(?P<app_label>", "").replace("<id>", "1")
        for name in ("nobody", "tenant_admin", "operator"):
            answer = world.clients[name].get(path)
            where = answer.headers.get("Location", "")
            assert (answer.status_code, where.startswith(LOGIN)) == (302, True), (path, name)


def levers() -> dict[str, Any]:
    """Return every lever: a public function that says in whose name it acts."""
    found = {}
    for package in (scheduling.controls, billing.services, tenants):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not module.ispkg:
                found |= public(import_module(module.name))
    return found


def public(module: Any) -> dict[str, Any]:
    return {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and "acting_user" in inspect.signature(function).parameters
    }


def test_every_lever_is_in_the_table_and_its_action_is_walked():
    assert set(levers()) == set(LEVERS) | NO_ADDRESS
    assert set(LEVERS.values()) == {call.action for call in CALLS if call.action}


def test_a_lever_without_an_address_is_pulled_by_no_page():
    entries = [
        import_module(one.name)
        for package in (scheduling.api, scheduling.cockpit)
        for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]
    hidden = [levers()[name] for name in NO_ADDRESS]
    pulled = {value.__name__ for module in entries for value in vars(module).values()
              if any(value is one for one in hidden)}  # fmt: skip
    assert pulled == set()


def test_every_socket_is_in_the_table():
    routed = socket_application._application.inner.routes
    assert {str(one.pattern) for one in routed} == {*SOCKETS, ""}


@pytest.fixture
def keys(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Sign everybody in; return the keys of the sessions."""
    monkeypatch.setattr(consumer, "feed", Feed())
    monkeypatch.setattr(consumer, "sockets", SocketCount())
    scene()
    return {name: session_of(user) for name, user in people().items()}


async def test_each_caller_gets_its_socket_or_the_reason_why_not(keys):
    found = {name: await connect(keys.get(name, "")) for name in CALLERS}
    assert found == dict(zip(CALLERS, SOCKETS["ws/live/"].split(), strict=True))


async def connect(key: str) -> str:
    """Open a socket: "open" when a first frame comes, else the code with which it is closed."""
    browser = Browser(key)
    assert await browser.open()
    first = await browser.socket.receive_output(timeout=6)
    if first["type"] == "websocket.close":
        return str(first["code"])
    await browser.leave()
    return "open"

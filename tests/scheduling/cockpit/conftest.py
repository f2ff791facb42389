"""People with sessions, a clean read model, and sockets as a browser opens them."""

import itertools
import json
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
import pytest
from channels.testing import WebsocketCommunicator
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django.test import override_settings
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import sync_playwright

from scheduling import snapshot
from scheduling.cockpit import consumer, views
from scheduling.cockpit.feed import Feed
from scheduling.cockpit.limits import SocketCount
from scheduling.cockpit.readmodel import ReadModel
from scheduling.cockpit.routing import socket_application
from scheduling.events import valkey_client
from tenants.models import Membership, Tenant, Workspace
from tests.scheduling.cockpit.boards import POOL, Story
from tests.scheduling.cockpit.pages import CHROMIUM, FLAGS, PASSWORD, Server

_epochs = itertools.count(2)
Publish: TypeAlias = Callable[[Story, int], None]


class People:
    """Two tenants, an operator, and a viewer of the first tenant."""

    def __init__(self) -> None:
        self.tenants = {
            slug: Tenant.objects.create(slug=slug, name=f"{slug.title()} Works")
            for slug in ("acme", "beta")
        }
        for tenant in self.tenants.values():
            Workspace.objects.create(tenant=tenant, slug="main", name="Main")
        make = get_user_model().objects.create_user
        self.olga = make("olga", password=PASSWORD)
        self.vera = make("vera", password=PASSWORD)
        Membership.objects.create(user=self.olga, role="operator")
        self.seat = Membership.objects.create(
            user=self.vera, tenant=self.tenants["acme"], role="viewer"
        )

    @property
    def ids(self) -> dict[str, str]:
        return {slug: str(tenant.pk) for slug, tenant in self.tenants.items()}


@pytest.fixture
def people(transactional_db: None) -> People:
    return People()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[None]:
    """Begin each test without a snapshot and without copies of one.

    Governors under test elsewhere write snapshots too, hence a Valkey database of this run's own.
    """
    server = settings.REDIS_URL.rpartition("/")[0]
    settings.REDIS_URL = f"{server}/{8 + os.getpid() % 8}"
    valkey_client.cache_clear()
    client = valkey_client()
    client.delete(snapshot.POOLS_KEY, snapshot.PREFIX + POOL)
    model = ReadModel(valkey_client)
    for module in (consumer, views):
        monkeypatch.setattr(module, "read_model", model)
    monkeypatch.setattr(consumer, "feed", Feed())
    monkeypatch.setattr(consumer, "sockets", SocketCount())
    yield
    client.delete(snapshot.POOLS_KEY, snapshot.PREFIX + POOL)
    client.close()
    valkey_client.cache_clear()


@pytest.fixture
def publish(request: pytest.FixtureRequest) -> Publish:
    """Write a version of the order as the governor does.

    For the one server of all tests each test is a leader of its own: it shows nothing of an earlier.
    """
    epoch = next(_epochs) if "server" in request.fixturenames else None

    def write(story: Story, seq: int) -> None:
        header = story.header(seq)
        if epoch is not None:
            header = msgspec.structs.replace(header, epoch=epoch)
        snapshot.write(valkey_client(), header, story.rows())

    return write


@pytest.fixture(scope="session")
def daphne(tmp_path_factory: pytest.TempPathFactory, django_db_setup: None) -> Iterator[Server]:
    """One server for all tests of pages: to start one takes seconds. `server` starts it."""
    static = tmp_path_factory.mktemp("static")
    with override_settings(STATIC_ROOT=static):
        call_command("collectstatic", interactive=False, verbosity=0)
    server = Server(static)
    yield server
    server.stop()


@pytest.fixture
def server(people: People, daphne: Server) -> Server:
    daphne.start()
    return daphne


@pytest.fixture(scope="module")
def shared_chromium() -> Iterator[Chromium]:
    """One browser for the tests of a module: to start one takes seconds.

    It keeps a loop of its own in this thread, which Django would take for a coroutine's.
    """
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def chromium(server: Server, shared_chromium: Chromium) -> Iterator[Chromium]:
    """The browser, without a page of an earlier test."""
    yield shared_chromium
    for context in shared_chromium.contexts:
        context.close()


def session_of(user: Any) -> str:
    """Sign a person in and return the session's key."""
    store = SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    return str(store.session_key)


class Browser:
    """A socket of a page of http://testserver, with every frame as it came."""

    def __init__(self, key: str, query: str = "", origin: str = "http://testserver") -> None:
        headers = [(b"host", b"testserver"), (b"cookie", f"sessionid={key}".encode())]
        if origin:
            headers.append((b"origin", origin.encode()))
        self.socket = WebsocketCommunicator(
            socket_application, f"/ws/live/{query}", headers=headers
        )
        self.raw: list[str] = []

    async def open(self) -> bool:
        accepted, _ = await self.socket.connect(timeout=5)
        return bool(accepted)

    async def say(self, **message: Any) -> None:
        await self.socket.send_to(text_data=json.dumps(message))

    async def ack(self, frame: dict[str, Any]) -> None:
        await self.say(t="ack", id=frame["id"], seq=frame["seq"])

    async def frame(self, *kinds: str, timeout_s: float = 6) -> dict[str, Any]:
        """Return the next frame of one of these kinds; others are kept in `raw` only."""
        while True:
            text = await self.socket.receive_from(timeout=timeout_s)
            self.raw.append(text)
            found: dict[str, Any] = json.loads(text)
            if not kinds or found["t"] in kinds:
                return found

    async def close_code(self, timeout_s: float = 7) -> int:
        """Return the code with which the server closes; frames before it are kept in `raw`."""
        while True:
            output = await self.socket.receive_output(timeout=timeout_s)
            if output["type"] == "websocket.close":
                return int(output["code"])
            self.raw.append(output.get("text", ""))

    async def leave(self) -> None:
        await self.socket.disconnect()

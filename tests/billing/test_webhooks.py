"""Deliveries against a real server: signed, pinned, repeated under one id, given up after a day."""

import hashlib
import hmac
import json
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from billing.core.pricing import Usage
from billing.models import WebhookDelivery, WebhookEndpoint
from billing.services import posting
from billing.services.deliveries import deliveries_due, deliveries_forget, deliveries_send
from billing.services.posting import Parcel, post_all
from billing.services.webhooks import (
    MOST,
    secret_of,
    webhook_add,
    webhook_remove,
    webhook_rotate,
)
from tenants.controls import ControlRefused
from tenants.models import AuditEntry
from tests.billing.conftest import Shop, settle

BY = {"acting_user": "olga", "reason": "plan"}


@dataclass
class Receiver:
    """A server that keeps what it got and answers as it is told."""

    status: int = 204
    location: str = ""
    wait_s: float = 0.0
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    told = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.got.append((self.path, dict(self.headers), body))
            time.sleep(told.wait_s)
            self.send_response(told.status)
            if told.location:
                self.send_header("Location", told.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield told
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def allowed(settings: Any) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = True


def hooked(shop: Shop, url: str) -> WebhookEndpoint:
    return webhook_add(tenant_id=shop.tenant.id, url=url, **BY).endpoint


def alert(shop: Shop) -> WebhookDelivery:
    shop.budget("10")
    settle(settlements=[shop.used(uuid.uuid4(), Usage(output_total=500_000))])
    return WebhookDelivery.objects.get()


def parcel(url: str) -> Parcel:
    return Parcel(delivery="d", url=url, secret="s", body={})  # noqa: S106 (of nothing)


def now() -> datetime:
    return datetime.now(UTC)


@pytest.mark.django_db
def test_a_delivery_arrives_signed_and_is_not_sent_again(shop, receiver, allowed):
    endpoint = hooked(shop, receiver.url)
    due = alert(shop)
    at = now()
    assert deliveries_due(at)
    assert deliveries_send(now=at) == 1
    ((path, headers, body),) = receiver.got
    assert (path, headers["Host"]) == ("/hook", f"127.0.0.1:{receiver.port}")
    assert headers["Telemachus-Event"] == "budget.alert"
    assert headers["Telemachus-Delivery"] == str(due.id)
    stamp, _, given = headers["Telemachus-Signature"].partition(",v1=")
    signed = f"{stamp[2:]}.".encode() + body
    own = hmac.new(secret_of(endpoint).encode(), signed, hashlib.sha256).hexdigest()
    assert (stamp, given) == (f"t={int(at.timestamp())}", own)
    told = json.loads(body)
    assert (told["id"], told["type"]) == (str(due.id), "budget.alert")
    assert (told["alert"]["percent"], told["alert"]["tenant"]) == (50, "acme")
    due.refresh_from_db()
    assert (due.state, due.tries, due.answer) == ("delivered", 1, "HTTP 204")
    assert not deliveries_due(at + timedelta(days=2))
    assert deliveries_send(now=at + timedelta(days=2)) == 0


@pytest.mark.django_db
@pytest.mark.parametrize("status", [302, 400, 429, 500, 503])
def test_any_other_answer_is_tried_again_under_the_same_id(shop, receiver, allowed, status):
    hooked(shop, receiver.url)
    due = alert(shop)
    receiver.status, receiver.location = status, receiver.url + "/elsewhere"
    at = now()
    deliveries_send(now=at)
    due.refresh_from_db()
    assert (due.state, due.tries, due.answer) == ("pending", 1, f"HTTP {status}")
    assert timedelta(seconds=5) <= due.next_at - at <= timedelta(seconds=10)
    assert deliveries_send(now=at) == 0
    receiver.status = 200
    assert deliveries_send(now=at + timedelta(seconds=10)) == 1
    due.refresh_from_db()
    assert (due.state, due.tries) == ("delivered", 2)
    assert {headers["Telemachus-Delivery"] for _, headers, _ in receiver.got} == {str(due.id)}
    assert [path for path, _, _ in receiver.got] == ["/hook", "/hook"]


@pytest.mark.django_db
def test_it_is_given_up_after_a_day(shop, receiver, allowed):
    hooked(shop, receiver.url)
    due = alert(shop)
    receiver.status = 500
    at = now()
    while deliveries_send(now=at):
        due.refresh_from_db()
        at = max(due.next_at, at)
        assert due.tries < 60
    assert (due.state, due.ended_at is not None) == ("failed", True)
    assert 25 <= due.tries <= 55
    assert timedelta(hours=22) < at - due.created_at <= timedelta(days=1)


@pytest.mark.django_db
def test_what_a_killed_sender_had_claimed_is_due_again_soon(shop, receiver, allowed, monkeypatch):
    hooked(shop, receiver.url)
    due = alert(shop)
    at = now()

    def killed(*_: object, **__: object) -> list[object]:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("billing.services.deliveries.post_all", killed)
        with pytest.raises(SystemExit):
            deliveries_send(now=at)
    assert deliveries_send(now=at) == 0
    assert deliveries_send(now=at + timedelta(minutes=1)) == 1
    due.refresh_from_db()
    assert (due.state, due.tries) == ("delivered", 2)


@pytest.mark.django_db
def test_nothing_is_sent_to_a_private_address(shop, receiver, settings, monkeypatch):
    settings.WEBHOOK_ALLOW_PRIVATE = False
    hooked(shop, "https://innocent.example/hook")
    due = alert(shop)
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _host, *rest, **more: real("127.0.0.1", *rest, **more)
    )
    deliveries_send(now=now())
    due.refresh_from_db()
    assert (due.state, receiver.got) == ("pending", [])
    assert due.answer == "not sent: it leads to a private address"


@pytest.mark.django_db
def test_one_private_address_among_public_ones_is_enough_to_refuse(monkeypatch):
    places = [(2, 1, 6, "", (address, 443)) for address in ("93.184.216.34", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
    (receipt,) = post_all([parcel("https://innocent.example/")], at=1, private_allowed=False)
    assert receipt.answer == "not sent: it leads to a private address"


def test_the_connection_goes_to_the_address_that_was_checked(receiver, monkeypatch):
    real, asked = socket.getaddrinfo, []

    def resolve(host: str, *rest: Any, **more: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    url = f"http://changing.example:{receiver.port}/hook"
    (receipt,) = post_all([parcel(url)], at=1, private_allowed=True)
    assert receipt.delivered
    assert asked.count("changing.example") == 1
    assert receiver.got[0][1]["Host"] == f"changing.example:{receiver.port}"


def test_slow_and_absent_servers_end_in_a_receipt_side_by_side(receiver, monkeypatch):
    monkeypatch.setattr(posting, "TIMEOUT_S", 1.0)
    receiver.wait_s = 5.0
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{closed.getsockname()[1]}/"
    urls = [receiver.url, gone, *[receiver.url] * 5]
    parcels = [parcel(url) for url in urls]
    began = time.monotonic()
    receipts = post_all(parcels, at=1, private_allowed=True)
    assert time.monotonic() - began < 5  # one after another would take 6 s at the least
    assert [receipt.delivered for receipt in receipts] == [False] * 7
    assert receipts[0].answer == "no answer within 1 s"
    assert receipts[1].answer == "no connection (ConnectError)"


@pytest.mark.django_db
def test_a_rotated_secret_signs_from_then_on(shop, receiver, allowed):
    made = webhook_add(tenant_id=shop.tenant.id, url=receiver.url, **BY)
    turned = webhook_rotate(endpoint_id=made.endpoint.id, **BY)
    assert turned.secret != made.secret
    assert turned.secret == secret_of(WebhookEndpoint.objects.get())
    stored = json.dumps(list(AuditEntry.objects.values("before", "after")))
    assert made.secret not in stored
    assert turned.secret not in stored


@pytest.mark.django_db
def test_a_removed_endpoint_gets_nothing_more(shop, receiver, allowed):
    endpoint = hooked(shop, receiver.url)
    alert(shop)
    webhook_remove(endpoint_id=endpoint.id, **BY)
    assert deliveries_send(now=now()) == 0
    assert receiver.got == []
    actions = AuditEntry.objects.filter(target_type="webhook").values_list("action", flat=True)
    assert list(actions) == ["webhook_remove", "webhook_add"]


@pytest.mark.django_db
def test_endpoints_are_refused_that_are_private_known_or_too_many(shop, settings):
    settings.WEBHOOK_ALLOW_PRIVATE = False
    hooked(shop, "https://example.org/0")
    for url, words in [
        ("https://127.0.0.1/", "Must not lead into"),
        ("https://example.org/0", "go there already"),
    ]:
        with pytest.raises(ControlRefused, match=words) as error:
            hooked(shop, url)
        assert error.value.field == "url"
    for number in range(1, MOST):
        hooked(shop, f"https://example.org/{number}")
    with pytest.raises(ControlRefused, match="at most 10"):
        hooked(shop, "https://example.org/one-more")


@pytest.mark.django_db
def test_old_deliveries_are_forgotten_once_they_have_ended(shop, receiver, allowed):
    hooked(shop, receiver.url)
    alert(shop)
    assert deliveries_forget(before=now() + timedelta(days=9)) == 0
    deliveries_send(now=now())
    assert deliveries_forget(before=now() - timedelta(days=9)) == 0
    assert deliveries_forget(before=now() + timedelta(days=9)) == 1

"""Control work on webhooks: sent when they are due, forgotten when they are old."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from billing.models import BudgetAlert, WebhookDelivery, WebhookEndpoint
from billing.services.posting import Receipt
from scheduling.tasks import control
from tenants.models import Workspace
from tests.scheduling.factories import make_budget


@pytest.fixture
def due(acme: Workspace) -> WebhookDelivery:
    alert = BudgetAlert.objects.create(
        tenant=acme.tenant, budget_id=make_budget(acme, "10"), window_start=timezone.now(),
        percent=50, limit=10, spent=5,
    )  # fmt: skip
    endpoint = WebhookEndpoint.objects.create(tenant=acme.tenant, url="https://example.org/")
    return WebhookDelivery.objects.create(endpoint=endpoint, alert=alert, next_at=timezone.now())


def test_a_probe_sends_the_senders_task_only_when_something_is_due(
    due: WebhookDelivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(control.webhooks_send, "apply_async", lambda **more: sent.append(more))
    control.executors_probe()
    assert sent == [{"expires": 30}]
    WebhookDelivery.objects.update(next_at=timezone.now() + timedelta(hours=1))
    control.executors_probe()
    assert len(sent) == 1


def test_the_senders_task_empties_what_is_due_and_housekeeping_forgets_it(
    due: WebhookDelivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted: list[str] = []

    def post(parcels: Any, **_: object) -> list[Receipt]:
        posted.extend(parcel.delivery for parcel in parcels)
        return [Receipt(delivered=True, answer="HTTP 200") for _ in parcels]

    monkeypatch.setattr("billing.services.deliveries.post_all", post)
    control.webhooks_send()
    control.webhooks_send()
    assert posted == [str(due.id)]
    control.housekeeping()
    assert WebhookDelivery.objects.get().state == "delivered"
    WebhookDelivery.objects.update(ended_at=timezone.now() - timedelta(days=31))
    control.housekeeping()
    assert not WebhookDelivery.objects.exists()
    assert uuid.UUID(posted[0]).version == 7

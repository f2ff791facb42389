"""Webhook endpoints: levers that add one, change its secret, take it away.

A secret is derived from the endpoint's id and generation by the server's own secret key, so no
secret lies in the database; it is told once, to who made it. A new server key makes all secrets
new: rotate the endpoints then.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.crypto import salted_hmac

from billing.core.webhooks import url_fault
from billing.models import WebhookDelivery, WebhookEndpoint
from tenants.controls import ControlRefused, record_change
from tenants.models import Tenant

MOST = 10
"""The most endpoints of a tenant."""
MOST_SHOWN = 100
SECRET_PREFIX = "whsec_"  # noqa: S105 (marks a secret, is none)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooked:
    """An endpoint with its secret, which is told once, and the change's number."""

    endpoint: WebhookEndpoint
    secret: str
    number: int


def private_allowed() -> bool:
    """Say whether this installation lets webhooks go to private addresses and over plain HTTP."""
    return bool(settings.WEBHOOK_ALLOW_PRIVATE)


def secret_of(endpoint: WebhookEndpoint) -> str:
    """Return what signs the endpoint's deliveries."""
    named = f"{endpoint.id}.{endpoint.generation}"
    return SECRET_PREFIX + salted_hmac("billing.webhook", named, algorithm="sha256").hexdigest()


def webhooks_seen(visible: Q) -> QuerySet[WebhookEndpoint]:
    """Return the endpoints that a filter lets through, the oldest first."""
    return WebhookEndpoint.objects.filter(visible).select_related("tenant").order_by("id")


def deliveries_seen(endpoint_id: uuid.UUID) -> QuerySet[WebhookDelivery]:
    """Return the last deliveries to an endpoint, newest first."""
    return WebhookDelivery.objects.filter(endpoint=endpoint_id).order_by("-id")[:MOST_SHOWN]


@transaction.atomic
def webhook_add(*, acting_user: str, reason: str, tenant_id: uuid.UUID, url: str) -> Hooked:
    """Send a tenant's alerts to this address from now on.

    Raises `ControlRefused` for an address that is none, is private or is known already, for too
    many, or no reason; and `Tenant.DoesNotExist`.
    """
    fault = url_fault(url, private_allowed=private_allowed())
    if fault:
        raise ControlRefused("url", fault)
    tenant = Tenant.objects.select_for_update(no_key=True).get(id=tenant_id)
    known = set(WebhookEndpoint.objects.filter(tenant=tenant).values_list("url", flat=True))
    if url in known:
        raise ControlRefused("url", "Alerts go there already; rotate it for a new secret.")
    if len(known) >= MOST:
        raise ControlRefused("url", f"A tenant has at most {MOST} endpoints; take one away first.")
    endpoint = WebhookEndpoint.objects.create(tenant=tenant, url=url)
    number = _record(endpoint, "webhook_add", ({}, {"url": url}), acting_user, reason)
    return Hooked(endpoint=endpoint, secret=secret_of(endpoint), number=number)


@transaction.atomic
def webhook_rotate(*, acting_user: str, reason: str, endpoint_id: uuid.UUID) -> Hooked:
    """Give an endpoint a new secret; the old one signs nothing any more.

    Raises `WebhookEndpoint.DoesNotExist`.
    """
    endpoint = _locked(endpoint_id)
    before = {"generation": endpoint.generation}
    endpoint.generation += 1
    endpoint.save(update_fields=["generation"])
    change = (before, {"generation": endpoint.generation})
    number = _record(endpoint, "webhook_rotate", change, acting_user, reason)
    return Hooked(endpoint=endpoint, secret=secret_of(endpoint), number=number)


@transaction.atomic
def webhook_remove(*, acting_user: str, reason: str, endpoint_id: uuid.UUID) -> int:
    """Send nothing there any more, what is due included; returns the change's number.

    Raises `WebhookEndpoint.DoesNotExist`.
    """
    endpoint = _locked(endpoint_id)
    number = _record(endpoint, "webhook_remove", ({"url": endpoint.url}, {}), acting_user, reason)
    endpoint.delete()
    return number


def _locked(endpoint_id: uuid.UUID) -> WebhookEndpoint:
    rows = WebhookEndpoint.objects.select_related("tenant")
    return rows.select_for_update(of=("self",)).get(id=endpoint_id)


def _record(
    endpoint: WebhookEndpoint,
    action: str,
    change: tuple[Mapping[str, object], Mapping[str, object]],
    acting_user: str,
    reason: str,
) -> int:
    return record_change(
        actor=acting_user,
        action=action,
        tenant=endpoint.tenant,
        target=("webhook", endpoint.id),
        change=change,
        reason=reason,
    )

"""/webhooks: where a tenant's alerts are sent, for those who manage it.

A delivery is a POST of JSON with three headers: `Telemachus-Event` (budget.alert),
`Telemachus-Delivery` (an id, the same on every repeat), and `Telemachus-Signature`
(`t=<epoch seconds>,v1=<hex>`, where the hex is HMAC-SHA256 of `<t>.<body>` under the endpoint's
secret). Answer 2xx within five seconds; anything else is tried again, for a day.
"""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.core.terms import DELIVERY_STATES
from billing.services.webhooks import (
    Hooked,
    deliveries_seen,
    webhook_add,
    webhook_remove,
    webhook_rotate,
    webhooks_seen,
)
from scheduling.api.budget_fields import text
from scheduling.api.budget_scopes import tenant_seen
from scheduling.api.documents import TENANT, errors
from scheduling.api.endpoint import Endpoint
from scheduling.api.levers import Lever, ReasonSerializer, Target, asked, described
from scheduling.api.serializers import Shown
from tenants.rbac import Hidden, Permission, Principal, reach, require

WRITE_ERRORS = errors(400, 401, 403, 404, 415, 503)
SIGNED = "Deliveries carry Telemachus-Signature: t=<epoch seconds>,v1=<HMAC-SHA256 of t.body>."


class WebhookSerializer(Shown):
    """An endpoint."""

    id = serializers.UUIDField()
    tenant = serializers.CharField(source="tenant.slug")
    url = serializers.CharField()
    created_at = serializers.DateTimeField()


class HookedSerializer(Shown):
    """An endpoint with its secret, which is told this once."""

    webhook = WebhookSerializer(source="endpoint")
    secret = serializers.CharField(help_text=SIGNED)
    control = serializers.IntegerField(source="number")


class WebhookAddSerializer(ReasonSerializer):
    """An endpoint to be added."""

    tenant = serializers.CharField()
    url = serializers.CharField(max_length=500, help_text="An https address of the open internet.")


class DeliverySerializer(Shown):
    """One alert on its way to an endpoint; `answer` is what came of the last try."""

    id = serializers.UUIDField()
    alert = serializers.IntegerField(source="alert_id")
    state = serializers.CharField(help_text=f"One of {', '.join(DELIVERY_STATES)}.")
    tries = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    next_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    answer = serializers.CharField(allow_blank=True)


class Webhooks(Endpoint):
    """The endpoints."""

    filters: ClassVar[frozenset[str]] = frozenset({"tenant"})

    @extend_schema(
        operation_id="webhooks_list",
        summary="The endpoints of the tenants that the caller manages",
        parameters=[TENANT],
        responses={200: WebhookSerializer(many=True), **errors(400, 401, 404)},
    )
    def get(self, request: Request) -> Response:
        """List endpoints, without their secrets."""
        visible = _managed(self.principal)
        if "tenant" in request.query_params:
            visible &= Q(tenant=tenant_seen(self.principal, request.query_params["tenant"]))
        return Response(WebhookSerializer(webhooks_seen(visible), many=True).data)

    @extend_schema(
        operation_id="webhooks_add",
        summary="Send a tenant's alerts to an address; the secret is told once",
        request=WebhookAddSerializer,
        responses={201: HookedSerializer, **WRITE_ERRORS},
    )
    def post(self, request: Request) -> Response:
        """Add an endpoint; a repeat is refused, for no answer with a secret is remembered."""
        body, reason = asked(request, ("tenant", "url"))
        tenant = tenant_seen(self.principal, text(body, "tenant"))
        require(self.principal, Permission.MANAGE, tenant=tenant)
        by = {"acting_user": self.principal.name, "reason": reason}
        return _shown(webhook_add(tenant_id=tenant, url=text(body, "url"), **by), 201)


class RotateWebhook(Endpoint):
    """A new secret."""

    @extend_schema(
        operation_id="webhooks_rotate",
        summary="Give an endpoint a new secret, told once; the old one ends at once",
        request=ReasonSerializer,
        responses={200: HookedSerializer, **WRITE_ERRORS},
    )
    def post(self, request: Request, webhook_id: uuid.UUID) -> Response:
        """Rotate the secret."""
        endpoint, _ = _found(self.principal, webhook_id)
        _, reason = asked(request, ())
        by = {"acting_user": self.principal.name, "reason": reason}
        return _shown(webhook_rotate(endpoint_id=endpoint, **by), 200)


@described("webhooks_remove", "Send nothing to an endpoint any more", ReasonSerializer)
class RemoveWebhook(Lever):
    """The end of an endpoint, with all that was due to it."""

    def find(self, **names: str) -> Target:
        """Return the endpoint, if the caller manages its tenant."""
        endpoint, tenant = _found(self.principal, uuid.UUID(str(names["webhook_id"])))
        return Target(id=endpoint, tenant=tenant)

    def change(self, target: uuid.UUID, body: Mapping[str, Any]) -> Callable[..., int]:
        """Return the removal."""
        return partial(webhook_remove, endpoint_id=target)


class WebhookDeliveries(Endpoint):
    """What became of what was sent."""

    @extend_schema(
        operation_id="webhooks_deliveries",
        summary="The last 100 deliveries to an endpoint, newest first",
        responses={200: DeliverySerializer(many=True), **errors(401, 404)},
    )
    def get(self, request: Request, webhook_id: uuid.UUID) -> Response:
        """List deliveries with their tries and the last answer."""
        endpoint, _ = _found(self.principal, webhook_id)
        return Response(DeliverySerializer(deliveries_seen(endpoint), many=True).data)


def _managed(principal: Principal) -> Q:
    within = reach(principal, Permission.MANAGE)
    return Q() if within.everywhere else Q(tenant__in=within.tenants)


def _found(principal: Principal, webhook_id: uuid.UUID) -> tuple[uuid.UUID, uuid.UUID]:
    """Return the ids of an endpoint and its tenant; to who does not manage it there is none."""
    found = webhooks_seen(_managed(principal) & Q(id=webhook_id)).first()
    if found is None:
        raise Hidden("webhook")
    return found.id, found.tenant_id


def _shown(hooked: Hooked, status: int) -> Response:
    return Response(HookedSerializer(hooked).data, status=status)

"""/tenants and /shares: who there is, and each tenant's part of the capacity."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import POOL, errors
from scheduling.api.endpoint import Endpoint
from scheduling.api.pools import pool_named
from scheduling.api.serializers import Shown
from scheduling.events import valkey_client
from scheduling.models import Pool
from scheduling.selectors.queue import moment, pool_header
from scheduling.selectors.shares import PoolShares, pool_shares
from scheduling.snapshot import TenantRow
from tenants.models import Tenant, Workspace
from tenants.rbac import Permission, Principal, reach, visible_tenants


class TenantSerializer(Shown):
    """A tenant, with those of its workspaces that the caller may see."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    weight = serializers.IntegerField()
    held = serializers.BooleanField()
    timezone = serializers.CharField()
    workspaces = serializers.ListField(child=serializers.CharField())


class TenantShareSerializer(Shown):
    """A tenant's share of a pool: by its weight (planned) and of the units in use (actual)."""

    tenant = serializers.CharField(source="slug")
    name = serializers.CharField()
    weight = serializers.IntegerField()
    held = serializers.BooleanField()
    waiting = serializers.IntegerField()
    running = serializers.IntegerField()
    in_use = serializers.IntegerField()
    planned = serializers.FloatField()
    actual = serializers.FloatField()
    served = serializers.IntegerField()
    clear_at = serializers.DateTimeField(allow_null=True)


class OthersSerializer(Shown):
    """All tenants that the caller may not see, as one."""

    tenants = serializers.IntegerField()
    waiting = serializers.IntegerField()
    running = serializers.IntegerField()
    in_use = serializers.IntegerField()


class PoolSharesSerializer(Shown):
    """The shares of one pool."""

    pool = serializers.CharField()
    at = serializers.DateTimeField()
    tenants = TenantShareSerializer(many=True)
    others = OthersSerializer()


class Tenants(Endpoint):
    """The tenants."""

    @extend_schema(
        operation_id="tenants_list",
        summary="Tenants and workspaces that the caller may see",
        responses={200: TenantSerializer(many=True), **errors(401)},
    )
    def get(self, request: Request) -> Response:
        """List the tenants that the caller has a role in."""
        return Response(TenantSerializer(_tenants(self.principal), many=True).data)


class Shares(Endpoint):
    """The shares."""

    filters: ClassVar[frozenset[str]] = frozenset({"pool"})

    @extend_schema(
        operation_id="shares_list",
        summary="Planned and actual shares of the caller's tenants, by pool",
        parameters=[POOL],
        responses={200: PoolSharesSerializer(many=True), **errors(400, 401, 404, 503)},
    )
    def get(self, request: Request) -> Response:
        """List shares by pool; pools without a published order are left out."""
        named = request.query_params.get("pool")
        pools = [pool_named(named)] if named is not None else list(Pool.objects.all())
        headers = [pool_header(valkey_client(), pool) for pool in pools]
        visible = visible_tenants(self.principal)
        told = [_told(pool_shares(header, visible)) for header in headers if header is not None]
        return Response(PoolSharesSerializer(told, many=True).data)


def _tenants(principal: Principal) -> list[dict[str, Any]]:
    within = reach(principal, Permission.VIEW)
    visible = visible_tenants(principal)
    rows = Tenant.objects.all() if visible is None else Tenant.objects.filter(id__in=visible)
    shown: dict[Any, list[str]] = {}
    for workspace in Workspace.objects.filter(tenant__in=rows).order_by("slug", "id"):
        if within.covers(workspace.tenant_id, workspace.id):
            shown.setdefault(workspace.tenant_id, []).append(workspace.slug)
    return [
        {
            "id": row.id,
            "slug": row.slug,
            "name": row.name,
            "weight": row.weight,
            "held": row.held,
            "timezone": row.timezone,
            "workspaces": [f"{row.slug}/{slug}" for slug in shown.get(row.id, [])],
        }
        for row in rows
    ]


def _told(shares: PoolShares) -> dict[str, Any]:
    return {
        "pool": shares.header.slug,
        "at": moment(shares.header.at),
        "tenants": [_share(row) for row in shares.tenants],
        "others": shares.others,
    }


def _share(row: TenantRow) -> dict[str, Any]:
    return {
        "slug": row.slug,
        "name": row.name,
        "weight": row.weight,
        "held": row.held,
        "waiting": row.waiting,
        "running": row.running,
        "in_use": row.in_use,
        "planned": row.planned,
        "actual": row.actual,
        "served": row.served,
        "clear_at": moment(row.clear_at),
    }

"""/audit: every lever and policy change, newest first, for those whom it concerns."""

from typing import ClassVar

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import CURSOR, PAGE_SIZE, TENANT, errors, paged, parameter
from scheduling.api.endpoint import Endpoint
from scheduling.api.levers import AuditSerializer
from scheduling.api.pagination import PAGE_FILTERS, page
from scheduling.api.scope import tenant_visible
from tenants.models import AuditEntry
from tenants.rbac import Permission, Principal, reach, visible_tenants

EXACT = ("action", "actor", "target_type", "target_id")


class Audit(Endpoint):
    """The audit."""

    filters: ClassVar[frozenset[str]] = PAGE_FILTERS | {"tenant", *EXACT}

    @extend_schema(
        operation_id="audit_list",
        summary="Lever and policy changes with before, after and reason, newest first",
        parameters=[
            TENANT,
            parameter("action", "A lever's name, for example tenant_weight."),
            parameter("actor", "Who made the change."),
            parameter("target_type", "What was changed: job, tenant, pool, executor ..."),
            parameter("target_id", "The id of what was changed."),
            CURSOR,
            PAGE_SIZE,
        ],
        responses={200: paged("Audit", AuditSerializer), **errors(400, 401, 404)},
    )
    def get(self, request: Request) -> Response:
        """List all changes for an operator; those of their tenant for its admins; else one's own."""
        query = request.query_params
        exact = {name: query[name] for name in EXACT if name in query}
        rows = _visible(self.principal).filter(**exact)
        if "tenant" in query:
            rows = rows.filter(tenant=tenant_visible(self.principal, query["tenant"]))
        found = page(rows, request, key="number", newest_first=True)
        found["results"] = AuditSerializer(found["results"], many=True).data
        return Response(found)


def _visible(principal: Principal) -> QuerySet[AuditEntry]:
    rows = AuditEntry.objects.select_related("tenant")
    if principal.is_operator:
        return rows
    managed = Q(tenant__in=reach(principal, Permission.MANAGE).tenants)
    own = Q(actor=principal.name, tenant__in=visible_tenants(principal) or ())
    return rows.filter(managed | own)

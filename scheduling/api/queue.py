"""/queue: a window of the fair order, with each job's place, turn, times and why."""

from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import POOL, TENANT, errors, parameter
from scheduling.api.endpoint import Endpoint, whole_number
from scheduling.api.pools import pool_asked
from scheduling.api.problems import unavailable
from scheduling.api.scope import tenant_visible
from scheduling.api.serializers import QueueRowSerializer, Shown
from scheduling.events import valkey_client
from scheduling.selectors.queue import NoOrder, Window, moment, order_window
from tenants.rbac import Permission, reach

LARGEST_WINDOW = 500
WINDOW = 50
DEEPEST = 100_000_000


class QueueSerializer(Shown):
    """A window. `others` counts the waiting jobs that the caller may not see."""

    pool = serializers.CharField()
    at = serializers.DateTimeField()
    epoch = serializers.IntegerField()
    seq = serializers.IntegerField()
    policy = serializers.IntegerField()
    total = serializers.IntegerField()
    startable = serializers.IntegerField()
    matching = serializers.IntegerField()
    others = serializers.IntegerField()
    clear_at = serializers.DateTimeField(allow_null=True)
    rows = QueueRowSerializer(many=True)


class Queue(Endpoint):
    """The order."""

    filters: ClassVar[frozenset[str]] = frozenset({"pool", "offset", "limit", "tenant"})

    @extend_schema(
        operation_id="queue_window",
        summary="A window of the fair order",
        parameters=[
            POOL,
            TENANT,
            parameter("offset", "Rows to skip.", OpenApiTypes.INT),
            parameter("limit", f"1 to {LARGEST_WINDOW}, else {WINDOW}.", OpenApiTypes.INT),
        ],
        responses={200: QueueSerializer, **errors(400, 401, 404, 503)},
    )
    def get(self, request: Request) -> Response:
        """Show the jobs that the caller may see, each with its true place among all.

        Jobs that cannot start now (held, paused, blocked) stand last, with a reason and no times.
        """
        offset = whole_number(request, "offset", 0, (0, DEEPEST))
        limit = whole_number(request, "limit", WINDOW, (1, LARGEST_WINDOW))
        tenant = request.query_params.get("tenant")
        pool = pool_asked(request)
        try:
            window = order_window(
                valkey_client(),
                pool,
                within=reach(self.principal, Permission.VIEW),
                tenant=tenant_visible(self.principal, tenant) if tenant else None,
                offset=offset,
                limit=limit,
            )
        except NoOrder:
            raise unavailable("The order of this pool is not published") from None
        return Response(QueueSerializer(_told(window)).data)


def _told(window: Window) -> dict[str, Any]:
    header = window.header
    return {
        "pool": header.slug,
        "at": moment(header.at),
        "epoch": header.epoch,
        "seq": header.seq,
        "policy": header.policy,
        "total": header.total,
        "startable": header.startable,
        "matching": window.matching,
        "others": header.total - window.matching,
        "clear_at": moment(header.clear_at),
        "rows": window.rows,
    }

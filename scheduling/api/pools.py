"""/pools and /executors: where work runs, and how much of it is in use."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import POOL, errors
from scheduling.api.endpoint import Endpoint
from scheduling.api.problems import invalid
from scheduling.api.serializers import Shown
from scheduling.events import valkey_client
from scheduling.models import Attempt, Executor, Pool
from scheduling.models.attempt import LIVE
from scheduling.selectors.circuits import circuit_word, circuits_open
from scheduling.selectors.queue import moment, pool_header
from scheduling.services.drafts import FieldError
from scheduling.snapshot import Header
from tenants.models import Workspace
from tenants.rbac import Hidden, Permission, Principal, Reach, reach


class PoolSerializer(Shown):
    """A pool. Below `reserve`, all is from the last order and null while there is none."""

    slug = serializers.CharField()
    name = serializers.CharField()
    budget = serializers.IntegerField()
    reserve = serializers.IntegerField()
    in_use = serializers.IntegerField(allow_null=True)
    waiting = serializers.IntegerField(allow_null=True)
    startable = serializers.IntegerField(allow_null=True)
    running = serializers.IntegerField(allow_null=True)
    clear_at = serializers.DateTimeField(allow_null=True)
    clear_low = serializers.DateTimeField(allow_null=True)
    clear_high = serializers.DateTimeField(allow_null=True)
    policy = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField(allow_null=True)


class CircuitSerializer(Shown):
    """A circuit that is not closed, of one model or (model "") of the executor's key."""

    model = serializers.CharField(allow_blank=True)
    state = serializers.CharField()
    until = serializers.DateTimeField()


class ExecutorSerializer(Shown):
    """An executor; `slots` are configured, `in_use` of them are taken.

    `circuit` sums its circuits up: closed, open, half_open, or partly_open where only some of its
    models rest; `circuit_until` is when the first of them is tried again.
    """

    id = serializers.UUIDField()
    slug = serializers.CharField()
    pool = serializers.CharField(source="pool.slug")
    tenant = serializers.CharField(source="tenant.slug", allow_null=True, default=None)
    kind = serializers.CharField()
    provider = serializers.CharField()
    job_kinds = serializers.ListField(child=serializers.CharField())
    models = serializers.ListField(child=serializers.CharField(), source="models_offered")
    region = serializers.CharField(allow_blank=True)
    labels = serializers.ListField(child=serializers.CharField())
    tools = serializers.ListField(child=serializers.CharField())
    data_classes = serializers.ListField(child=serializers.CharField())
    compute_class = serializers.CharField(allow_blank=True)
    slots = serializers.IntegerField()
    in_use = serializers.IntegerField()
    enabled = serializers.BooleanField()
    draining = serializers.BooleanField()
    health = serializers.CharField()
    circuit = serializers.CharField(source="circuits_word.state")
    circuit_until = serializers.DateTimeField(source="circuits_word.until", allow_null=True)
    circuits = CircuitSerializer(many=True, source="circuits_open")


class Pools(Endpoint):
    """The pools."""

    @extend_schema(
        operation_id="pools_list",
        summary="Pools with their budget, use and backlog",
        responses={200: PoolSerializer(many=True), **errors(401, 503)},
    )
    def get(self, request: Request) -> Response:
        """List the pools, with counts over all tenants."""
        client = valkey_client()
        rows = [_pool_told(pool, pool_header(client, pool)) for pool in Pool.objects.all()]
        return Response(PoolSerializer(rows, many=True).data)


class Executors(Endpoint):
    """The executors."""

    filters: ClassVar[frozenset[str]] = frozenset({"pool"})

    @extend_schema(
        operation_id="executors_list",
        summary="Executors that the caller's jobs may run on",
        parameters=[POOL],
        responses={200: ExecutorSerializer(many=True), **errors(400, 401, 404)},
    )
    def get(self, request: Request) -> Response:
        """List the shared executors and those of the caller's tenants."""
        rows = executors_visible(self.principal)
        if "pool" in request.query_params:
            rows = rows.filter(pool=pool_named(request.query_params["pool"]))
        return Response(ExecutorSerializer(_with_circuits(rows), many=True).data)


def pool_named(slug: str) -> Pool:
    """Return a pool; raise `Hidden` for an unknown one."""
    pool = Pool.objects.filter(slug=slug).first()
    if pool is None:
        raise Hidden("pool")
    return pool


def pool_asked(request: Request) -> Pool:
    """Return the pool that the query names, or the only one there is."""
    if "pool" in request.query_params:
        return pool_named(request.query_params["pool"])
    pools = list(Pool.objects.all())
    if len(pools) != 1:
        known = ", ".join(pool.slug for pool in pools) or "none yet"
        raise invalid(FieldError(field="pool", sentence=f"Name a pool; there are: {known}."))
    return pools[0]


def executors_visible(principal: Principal) -> QuerySet[Executor]:
    """Return the shared executors and those of the principal's tenants, with the slots in use."""
    within = reach(principal, Permission.VIEW)
    # A join would read every attempt that ever was; the live ones have an index of their own.
    live = Attempt.objects.filter(executor=OuterRef("id"), state__in=LIVE)
    count = Subquery(live.order_by().values("executor").annotate(count=Count("id")).values("count"))
    counted = Executor.objects.annotate(in_use=Coalesce(count, 0))
    rows = counted.select_related("pool", "tenant").order_by("slug", "id")
    if within.everywhere:
        return rows
    whole = Q(tenant__in=within.tenants) | Q(workspace__in=within.workspaces)
    shared = Q(workspace=None, tenant__in=_tenants_touched(within))
    return rows.filter(Q(tenant=None, workspace=None) | whole | shared)


def _with_circuits(rows: Iterable[Executor]) -> list[Executor]:
    """Put each executor's circuits, and their word, beside it."""
    circuits, found = circuits_open(), []
    for row in rows:
        own = circuits.get(row.id, ())
        row.circuits_open, row.circuits_word = own, circuit_word(row, own)  # type: ignore[attr-defined]
        found.append(row)
    return found


def _tenants_touched(within: Reach) -> Any:  # noqa: ANN401 - a subquery
    return Workspace.objects.filter(id__in=within.workspaces).values("tenant")


def _pool_told(pool: Pool, header: Header | None) -> dict[str, Any]:
    told: dict[str, Any] = dict(_CLOSED)
    told.update(slug=pool.slug, name=pool.name, budget=pool.budget, reserve=pool.reserve)
    return told if header is None else told | dict(_measured(header))


_CLOSED = dict.fromkeys(
    ("in_use", "waiting", "startable", "running", "clear_at", "clear_low", "clear_high",
     "policy", "at")
)  # fmt: skip


def _measured(header: Header) -> Iterator[tuple[str, Any]]:
    yield "in_use", header.in_use
    yield "waiting", header.total
    yield "startable", header.startable
    yield "running", len(header.running)
    yield "clear_at", moment(header.clear_at)
    yield "clear_low", moment(header.clear_low)
    yield "clear_high", moment(header.clear_high)
    yield "policy", header.policy
    yield "at", moment(header.at)

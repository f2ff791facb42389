"""/budgets: ceilings as they stand now, and the levers on them.

Operators set all of them. A tenant's admins share out what the tenant has: all ceilings but the
tenant's own, which no inner one can exceed, for every scope of a job must pass.
"""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from billing.core.terms import DIMENSIONS, SCOPES, WINDOWS
from billing.services.budgets import ceiling_set
from billing.services.defaults import budget_default_set
from billing.services.escalations import Increase, budget_escalate, escalation_end
from billing.services.overview import (
    BudgetRow,
    budget_of_escalation,
    budgets_page,
    defaults_seen,
)
from scheduling.api.budget_documents import (
    BudgetPageSerializer,
    BudgetSerializer,
    BudgetSetSerializer,
    DefaultSerializer,
    DefaultSetSerializer,
    EscalateSerializer,
)
from scheduling.api.budget_fields import ceiling_read, number, term_read, text
from scheduling.api.budget_scopes import may_set, scope_id_of, tenant_seen
from scheduling.api.documents import CURSOR, IDEMPOTENCY, PAGE_SIZE, TENANT, errors, parameter
from scheduling.api.endpoint import whole_number
from scheduling.api.levers import AuditSerializer, Lever, ReasonSerializer, Target, described
from scheduling.api.pagination import LARGEST_PAGE, PAGE_FILTERS
from scheduling.api.pagination import PAGE_SIZE as DEFAULT_PAGE
from scheduling.api.problems import invalid
from scheduling.api.writes import body_of
from scheduling.selectors.budgets import budgets_visible, names_of
from scheduling.services.drafts import FieldError
from scheduling.services.settlement_rows import deferred_wake
from tenants.ids import uuid_or_none
from tenants.rbac import Hidden, Permission, reach, require

EXACT = ("scope", "dimension", "window")
SETTINGS = ("tenant", *EXACT, "timezone", "anchor", "limit")
WRITE_ERRORS = errors(400, 401, 403, 404, 409, 415, 503)
WOKEN = 1_000
"""How many of a tenant's jobs that wait for budget a raised ceiling sends back to admission."""


class BudgetLever(Lever):
    """A lever on a ceiling; the tenant's jobs that wait for budget are tried anew after it."""

    def find(self, **names: str) -> Target:
        """Return the budget that the address names, if the caller may set it."""
        row = self.budget(uuid.UUID(str(names["budget_id"])))
        may_set(self.principal, row.scope, row.tenant_id)
        return Target(id=row.id, tenant=row.tenant_id)

    def budget(self, budget_id: uuid.UUID | None) -> BudgetRow:
        """Return a budget that the caller may see; raise `Hidden`."""
        visible = budgets_visible(self.principal) & Q(id=budget_id)
        rows, _ = budgets_page(visible, now=timezone.now(), after=None, size=1)
        if not rows:
            raise Hidden("budget")
        return rows[0]


class Budgets(Lever):
    """The ceilings."""

    http_method_names = ("get", "put", "head", "options")
    filters: ClassVar[frozenset[str]] = PAGE_FILTERS | {"tenant", *EXACT}
    takes = ("of", *SETTINGS)

    @extend_schema(
        operation_id="budgets_list",
        summary="Budgets with what is spent, held and left in their present window",
        parameters=[
            TENANT,
            parameter("scope", "A scope.", enum=SCOPES),
            parameter("dimension", "A dimension.", enum=DIMENSIONS),
            parameter("window", "A window.", enum=WINDOWS),
            CURSOR,
            PAGE_SIZE,
        ],
        responses={200: BudgetPageSerializer, **errors(400, 401, 404)},
    )
    def get(self, request: Request) -> Response:
        """List the budgets that the caller may see the costs of, and its own as a member."""
        query = request.query_params
        visible = budgets_visible(self.principal)
        visible &= Q(**{name: query[name] for name in EXACT if name in query})
        if "tenant" in query:
            visible &= Q(tenant=tenant_seen(self.principal, query["tenant"]))
        size = whole_number(request, "page_size", DEFAULT_PAGE, (1, LARGEST_PAGE))
        after = _cursor(query.get("cursor"))
        rows, more = budgets_page(visible, now=timezone.now(), after=after, size=size)
        told = BudgetSerializer(rows, many=True, context={"names": names_of(rows)})
        return Response({"results": told.data, "next_cursor": f"id.{more}" if more else None})

    @extend_schema(
        operation_id="budgets_set",
        summary="Set a budget; it acts on the next verdict",
        parameters=[IDEMPOTENCY],
        request=BudgetSetSerializer,
        responses={200: AuditSerializer, **WRITE_ERRORS},
    )
    def put(self, request: Request) -> Response:
        """Set a ceiling, making it if there is none; jobs that wait for budget are tried anew."""
        return self.post(request)

    def find(self, **names: str) -> Target:
        """Return the tenant that is named, if the caller may set such budgets in it."""
        body = body_of(self.request)
        tenant = tenant_seen(self.principal, text(body, "tenant"))
        may_set(self.principal, text(body, "scope"), tenant)
        return Target(id=tenant, tenant=tenant)

    def change(self, target: uuid.UUID, body: Mapping[str, Any]) -> Callable[..., int]:
        """Return the setting of the ceiling."""
        of = scope_id_of(text(body, "scope"), text(body, "of", ""), target)
        ceiling, limit = ceiling_read(body, target, of), number(body, "limit")
        return _waking(target, lambda **by: ceiling_set(ceiling=ceiling, limit=limit, **by)[1])


class BudgetDefaults(Lever):
    """What members, workspaces, workflows and missions get on first use."""

    http_method_names = ("get", "put", "head", "options")
    filters: ClassVar[frozenset[str]] = frozenset({"tenant"})
    takes = SETTINGS

    @extend_schema(
        operation_id="budget_defaults_list",
        summary="The budgets that new members, workspaces, workflows and missions get",
        parameters=[TENANT],
        responses={200: DefaultSerializer(many=True), **errors(400, 401, 404)},
    )
    def get(self, request: Request) -> Response:
        """List the defaults of the tenants whose costs the caller may see as a whole."""
        within = reach(self.principal, Permission.COSTS)
        visible = Q() if within.everywhere else Q(tenant__in=within.tenants)
        if "tenant" in request.query_params:
            visible &= Q(tenant=tenant_seen(self.principal, request.query_params["tenant"]))
        return Response(DefaultSerializer(defaults_seen(visible), many=True).data)

    @extend_schema(
        operation_id="budget_defaults_set",
        summary="Set what each new scope of a kind gets; null takes the default away",
        parameters=[IDEMPOTENCY],
        request=DefaultSetSerializer,
        responses={200: AuditSerializer, **WRITE_ERRORS},
    )
    def put(self, request: Request) -> Response:
        """Set a default; budgets that were made by it before keep their limits."""
        return self.post(request)

    def find(self, **names: str) -> Target:
        """Return the tenant that is named, if the caller manages it."""
        tenant = tenant_seen(self.principal, text(body_of(self.request), "tenant"))
        require(self.principal, Permission.MANAGE, tenant=tenant)
        return Target(id=tenant, tenant=tenant)

    def change(self, target: uuid.UUID, body: Mapping[str, Any]) -> Callable[..., int]:
        """Return the setting of the default."""
        if "limit" not in body:
            raise invalid(FieldError(field="limit", sentence="Must be given; null takes it away."))
        limit = None if body["limit"] is None else number(body, "limit")
        default = ceiling_read(body, target, "")
        return partial(budget_default_set, default=default, limit=limit)


@described("budgets_escalate", "Raise a budget for a time; it ends by itself", EscalateSerializer)
class EscalateBudget(BudgetLever):
    """A raise; its id stands in the answer's `after`."""

    takes = ("extra", "ends_at", "starts_at", "owner")

    def change(self, target: uuid.UUID, body: Mapping[str, Any]) -> Callable[..., int]:
        """Return the escalation."""
        increase = Increase(extra=number(body, "extra"), **term_read(body))
        tenant, now = self.budget(target).tenant_id, timezone.now()
        raised = partial(budget_escalate, budget_id=target, increase=increase, now=now)
        return _waking(tenant, lambda **by: raised(**by).number)


@described("escalations_end", "End an escalation before its time", ReasonSerializer)
class EndEscalation(BudgetLever):
    """The end of a raise; what was admitted under it keeps what it holds."""

    def find(self, **names: str) -> Target:
        """Return the escalation, if the caller may set its budget."""
        escalation = uuid.UUID(str(names["escalation_id"]))
        row = self.budget(budget_of_escalation(escalation))
        may_set(self.principal, row.scope, row.tenant_id)
        return Target(id=escalation, tenant=row.tenant_id)

    def change(self, target: uuid.UUID, body: Mapping[str, Any]) -> Callable[..., int]:
        """Return the end."""
        return partial(escalation_end, escalation_id=target, now=timezone.now())


def _waking(tenant: uuid.UUID, lever: Callable[..., int]) -> Callable[..., int]:
    """Return the lever with the waking of the jobs that its change may let in."""

    @transaction.atomic
    def pull(**by: str) -> int:
        made = lever(**by)
        deferred_wake([tenant], timezone.now(), most=WOKEN)
        return made

    return pull


def _cursor(given: str | None) -> uuid.UUID | None:
    if given is None:
        return None
    kind, _, key = given.partition(".")
    found = uuid_or_none(key) if kind == "id" else None
    if found is None:
        sentence = "Is no cursor of this list; send next_cursor of the page before, or none."
        raise invalid(FieldError(field="cursor", sentence=sentence))
    return found

"""Levers on settings: tenants, workspaces, workflows, pools, executors.

Operators pull them all. A tenant's admins share out what is the tenant's own: the weights of its
workspaces, but not its weight against others or what a job costs. Running caps: see `caps`.
"""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from rest_framework import serializers

from scheduling.api.levers import (
    Lever,
    ReasonSerializer,
    Target,
    described,
    operator_only,
    whole,
)
from scheduling.api.pools import executors_visible, pool_named
from scheduling.api.problems import invalid
from scheduling.api.scope import tenant_visible, workspace_visible
from scheduling.controls.executors import executor_capacity, executor_drain, executor_enable
from scheduling.controls.pools import pool_dial
from scheduling.controls.workflows import workflow_cost
from scheduling.models import Workflow
from scheduling.services.drafts import FieldError
from tenants.controls import tenant_weight
from tenants.limits import workspace_weight
from tenants.rbac import Hidden, Permission, Principal, require

Body = Mapping[str, Any]


class WeightSerializer(ReasonSerializer):
    """A share; 0 holds a tenant."""

    weight = serializers.IntegerField(min_value=0, max_value=1000)


class CostSerializer(ReasonSerializer):
    """The units that each job occupies."""

    cost = serializers.IntegerField(min_value=1)


class DialSerializer(ReasonSerializer):
    """Units in all, and those kept for incidents; what is left out stays."""

    budget = serializers.IntegerField(min_value=0, required=False)
    reserve = serializers.IntegerField(min_value=0, required=False)


class DrainSerializer(ReasonSerializer):
    """Whether what runs there and may yield is stopped, to go on elsewhere."""

    preempt = serializers.BooleanField(required=False, default=False)


class SlotsSerializer(ReasonSerializer):
    """How many jobs an executor runs at once at most."""

    slots = serializers.IntegerField(min_value=1)


class TenantLever(Lever):
    """A lever on a tenant: operators only."""

    def find(self, **names: str) -> Target:
        """Return the tenant of that slug."""
        tenant = tenant_visible(self.principal, names["slug"])
        operator_only(self.principal, "sets a tenant's weight and caps")
        return Target(id=tenant, tenant=tenant)


@described("tenants_weight", "Set a tenant's weight; 0 holds it, more lifts it", WeightSerializer)
class TenantWeight(TenantLever):
    """What waits of a held tenant and what comes keeps waiting; what runs is not stopped."""

    takes = ("weight",)

    def change(self, target: uuid.UUID, body: Body) -> Callable[..., int]:
        """Return the change of weight."""
        return partial(tenant_weight, tenant_id=target, weight=whole(body, "weight"))


class WorkspaceLever(Lever):
    """A lever on a workspace, for the admins of its tenant: it shares out what is the tenant's."""

    def find(self, **names: str) -> Target:
        """Return the workspace of that path."""
        workspace = workspace_visible(self.principal, f"{names['tenant']}/{names['workspace']}")
        tenant = managed(self.principal, names["tenant"])
        return Target(id=workspace, tenant=tenant)


@described("workspaces_weight", "Set a workspace's share of its tenant's turns", WeightSerializer)
class WorkspaceWeight(WorkspaceLever):
    """A workspace's weight."""

    takes = ("weight",)

    def change(self, target: uuid.UUID, body: Body) -> Callable[..., int]:
        """Return the change of weight."""
        return partial(workspace_weight, workspace_id=target, weight=whole(body, "weight"))


@described("workflows_cost", "Set the units that a tenant's workflow occupies", CostSerializer)
class WorkflowCost(Lever):
    """A workflow's cost: operators only, for the units are everybody's."""

    takes = ("cost",)

    def find(self, **names: str) -> Target:
        """Return the workflow of that tenant."""
        target = workflow_named(self.principal, names)
        operator_only(self.principal, "sets what a workflow costs")
        return target

    def change(self, target: uuid.UUID, body: Body) -> Callable[..., int]:
        """Return the change of cost."""
        return partial(workflow_cost, workflow_id=target, cost=whole(body, "cost"))


@described("pools_dial", "Set a pool's budget and reserve; nothing that runs stops", DialSerializer)
class PoolDial(Lever):
    """A pool's dial: operators only."""

    takes = ("budget", "reserve")

    def find(self, **names: str) -> Target:
        """Return the pool of that slug."""
        pool = pool_named(names["slug"])
        operator_only(self.principal, "turns a pool's dial")
        return Target(id=pool.id)

    def change(self, target: uuid.UUID, body: Body) -> Callable[..., int]:
        """Return the turn of the dial."""
        units: dict[str, Any] = {name: whole(body, name) for name in self.takes if name in body}
        if not units:
            raise invalid(FieldError(field="budget", sentence="Give a budget, a reserve or both."))
        return partial(pool_dial, pool_id=target, **units)


class ExecutorLever(Lever):
    """A lever on an executor: operators only."""

    def find(self, **names: str) -> Target:
        """Return the executor of that slug."""
        rows = executors_visible(self.principal).filter(slug=names["slug"])
        found = rows.values_list("id", "tenant").first()
        if found is None:
            raise Hidden("executor")
        operator_only(self.principal, "switches executors")
        return Target(id=found[0], tenant=found[1])


class Switch(ExecutorLever):
    """A lever on an executor that has two positions."""

    lever: ClassVar[Callable[..., int]]
    to: ClassVar[dict[str, bool]]

    def change(self, target: uuid.UUID, body: Body) -> Callable[..., int]:
        """Return the switch, put to its position."""
        return partial(type(self).lever, executor_id=target, **self.to)


@described("executors_enable", "Switch an executor on", ReasonSerializer)
class EnableExecutor(Switch):
    """On."""

    lever, to = staticmethod(executor_enable), {"enabled": True}


@described("executors_disable", "Switch an executor off; it ends what it runs", ReasonSerializer)
class DisableExecutor(Switch):
    """Off."""

    lever, to = staticmethod(executor_enable), {"enabled": False}


@described(
    "executors_drain",
    "Give an executor nothing new; it ends what it runs, or stops what may go on elsewhere",
    DrainSerializer,
)
class DrainExecutor(ExecutorLever):
    """Draining."""

    takes = ("preempt",)

    def change(self, target: uuid.UUID, body: Body) -> Callable[..., int]:
        """Return the draining."""
        stops = body.get("preempt", False)
        if not isinstance(stops, bool):
            raise invalid(FieldError(field="preempt", sentence="Must be true or false."))
        return partial(executor_drain, executor_id=target, draining=True, stops=stops)


@described("executors_undrain", "Give a drained executor work again", ReasonSerializer)
class UndrainExecutor(Switch):
    """Draining no more."""

    lever, to = staticmethod(executor_drain), {"draining": False}


@described("executors_capacity", "Set how many jobs an executor runs at once", SlotsSerializer)
class ExecutorCapacity(ExecutorLever):
    """An executor's slots."""

    takes = ("slots",)

    def change(self, target: uuid.UUID, body: Body) -> Callable[..., int]:
        """Return the change of slots."""
        return partial(executor_capacity, executor_id=target, slots=whole(body, "slots"))


def managed(principal: Principal, slug: str) -> uuid.UUID:
    """Return a tenant that the caller sees; raise `Forbidden` unless it manages it as a whole."""
    tenant = tenant_visible(principal, slug)
    require(principal, Permission.MANAGE, tenant=tenant)
    return tenant


def workflow_named(principal: Principal, names: Mapping[str, str]) -> Target:
    """Return the workflow that an address names, to who sees its tenant; raise `Hidden`."""
    tenant = tenant_visible(principal, names["tenant"])
    found = Workflow.objects.filter(tenant=tenant, slug=names["slug"]).first()
    if found is None:
        raise Hidden("workflow")
    return Target(id=found.id, tenant=tenant)

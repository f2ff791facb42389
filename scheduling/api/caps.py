""".../limits of tenants, workspaces and workflows: the running cap of each, told and set.

Who sees a tenant or a workspace as a whole is told its cap; a workflow's is told with its tenant's.
Operators set them all, a tenant's admins those inside it.
"""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import errors
from scheduling.api.levers import Lever, ReasonSerializer, Target, described, whole_or_none
from scheduling.api.scope import tenant_visible, workspace_visible
from scheduling.api.serializers import Shown
from scheduling.api.setting_levers import TenantLever, WorkspaceLever, managed, workflow_named
from scheduling.controls.workflows import workflow_limit
from scheduling.models import Workflow
from tenants.limits import tenant_limit, workspace_limit
from tenants.models import Tenant, Workspace
from tenants.rbac import Permission, require

_Capped = type[Tenant] | type[Workspace] | type[Workflow]


class LimitSerializer(ReasonSerializer):
    """The most jobs that may run at once; null for no cap."""

    max_running = serializers.IntegerField(min_value=1, allow_null=True)


class CapSerializer(Shown):
    """The running cap as it is set, raises aside; null for none of its own."""

    max_running = serializers.IntegerField(allow_null=True)


def capped(name: str, summary: str) -> Any:  # noqa: ANN401 - the framework's decorator
    """Describe both calls of a cap's address."""
    told = extend_schema(
        operation_id=f"{name}_limits_get",
        summary=f"The running cap of a {name.removesuffix('s')}",
        responses={200: CapSerializer, **errors(401, 403, 404)},
    )
    post = described(f"{name}_limits", summary, LimitSerializer)
    return lambda view: extend_schema_view(get=told)(post(view))


class CapLever(Lever):
    """The address of a running cap, a column of the row that it bounds."""

    takes = ("max_running",)
    rows: ClassVar[_Capped]
    lever: ClassVar[Callable[..., int]]
    names_it: ClassVar[str]

    def get(self, request: Request, **names: str) -> Response:
        """Tell the cap."""
        row = self.rows.objects.values("max_running").get(id=self.seen(**names))
        return Response(CapSerializer(row).data)

    def whole(self, slug: str) -> uuid.UUID:
        """Return a tenant that the caller sees as a whole; raise `Hidden`, or `Forbidden`."""
        tenant = tenant_visible(self.principal, slug)
        require(self.principal, Permission.VIEW, tenant=tenant)
        return tenant

    def seen(self, **names: str) -> uuid.UUID:
        """Return what the address names, to who may see it as a whole; raise `Hidden`, or a 403."""
        raise NotImplementedError

    def change(self, target: uuid.UUID, body: Mapping[str, Any]) -> Callable[..., int]:
        """Return the change of the cap."""
        cap = whole_or_none(body, "max_running")
        return partial(type(self).lever, **{self.names_it: target}, max_running=cap)


@capped("tenants", "Cap how many jobs of a tenant run at once")
class TenantLimits(CapLever, TenantLever):
    """A tenant's running cap."""

    rows, lever, names_it = Tenant, staticmethod(tenant_limit), "tenant_id"

    def seen(self, **names: str) -> uuid.UUID:
        """Return the tenant of that slug."""
        return self.whole(names["slug"])


@capped("workspaces", "Cap how many jobs of a workspace run at once")
class WorkspaceLimits(CapLever, WorkspaceLever):
    """A workspace's running cap."""

    rows, lever, names_it = Workspace, staticmethod(workspace_limit), "workspace_id"

    def seen(self, **names: str) -> uuid.UUID:
        """Return the workspace of that path."""
        return workspace_visible(self.principal, f"{names['tenant']}/{names['workspace']}")


@capped("workflows", "Cap how many jobs of a workflow run at once")
class WorkflowLimits(CapLever):
    """A workflow's running cap, for the admins of its tenant."""

    rows, lever, names_it = Workflow, staticmethod(workflow_limit), "workflow_id"

    def find(self, **names: str) -> Target:
        """Return the workflow of that tenant."""
        target = workflow_named(self.principal, names)
        managed(self.principal, names["tenant"])
        return target

    def seen(self, **names: str) -> uuid.UUID:
        """Return the workflow of that tenant."""
        target = workflow_named(self.principal, names)
        self.whole(names["tenant"])
        return target.id

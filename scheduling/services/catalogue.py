"""What a submission is checked against: loaded once for all rows of a call."""

from dataclasses import dataclass
from datetime import datetime

from scheduling.core import types
from scheduling.core.placement import candidates
from scheduling.core.policy.settings import Policy
from scheduling.events import valkey_client
from scheduling.models import Executor, Mission, Workflow
from scheduling.selectors.policy import active_policy, core_executor
from scheduling.services.foresight import Foresight
from tenants.controls import control_number
from tenants.models import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """A tenant's workflows and missions, the executors, the policy, and the last snapshot."""

    workspace: Workspace
    policy: Policy
    control: int
    workflows: dict[str, Workflow]
    missions: dict[str, Mission]
    executors: dict[str, list[tuple[Executor, types.Executor]]]
    foresight: dict[str, Foresight]

    def offers(self, job: types.Job, pool_id: str) -> list[tuple[str, str]]:
        """Return the (provider, model) of every executor that may ever run the job.

        Health and circuits do not count: they pass, the price does not.
        """
        rows = {core.id: row for row, core in self.executors.get(pool_id, [])}
        fitting = candidates(job, [core for _, core in self.executors.get(pool_id, [])])
        return sorted({_offer(rows[executor.id], job.model) for executor in fitting})

    def is_offered(self, model: str, pool_id: str) -> bool:
        """Tell whether any executor of the pool offers the model, whatever else it asks for."""
        return any(model in core.models for _, core in self.executors.get(pool_id, []))


def catalogue_load(workspace: Workspace, now: datetime) -> Catalogue:
    """Read everything that submissions to this workspace are checked against."""
    workflows = {
        workflow.slug: workflow
        for workflow in Workflow.objects.filter(tenant=workspace.tenant_id).select_related("pool")
    }
    executors: dict[str, list[tuple[Executor, types.Executor]]] = {}
    for row in Executor.objects.all():
        core = core_executor(row, slots=row.slots, available=True)
        executors.setdefault(str(row.pool_id), []).append((row, core))
    pools = {str(workflow.pool_id) for workflow in workflows.values()}
    return Catalogue(
        workspace=workspace,
        policy=active_policy(),
        control=control_number(),
        workflows=workflows,
        missions={m.slug: m for m in Mission.objects.filter(tenant=workspace.tenant_id)},
        executors=executors,
        foresight={pool: Foresight.read(valkey_client(), pool, now.timestamp()) for pool in pools},
    )


def _offer(row: Executor, model: str) -> tuple[str, str]:
    if model or not row.models_offered:
        return (row.provider, model or row.kind)
    return (row.provider, row.models_offered[0])

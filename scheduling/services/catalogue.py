"""What a submission is checked against: what levers have set, the backlog, the last snapshot.

What levers have set is remembered while the control clock stands still. The clock is read first in
each transaction of verdicts, so that a lever committed before it is always seen.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from scheduling.core import types
from scheduling.core.placement import candidates
from scheduling.core.policy.settings import Policy
from scheduling.events import valkey_client
from scheduling.models import Executor, Mission, Workflow
from scheduling.models.job import BACKLOG
from scheduling.selectors.policy import active_policy, core_executor
from scheduling.services.foresight import Foresight
from tenants.controls import NO_VERSION, VERSION_SQL, Version, control_version
from tenants.models import Tenant, Workspace
from tenants.prepared import prepared
from tenants.remembered import Remembered

Outlook = dict[str, Foresight]
"""The last snapshot of each pool that a call has met, with what the call has added to it."""
Offer = tuple[str, str]
"""(provider, model)"""
Executors = dict[str, list[tuple[Executor, types.Executor]]]
"""The executors by pool."""

# The states are in the text: with them as values a plan that is made once could not use the index of
# what waits, which holds these states alone.
_WAIT = ", ".join(f"'{state}'" for state in BACKLOG)
_FACTS = f"""
SELECT clock.number, clock.writer, own.tenant, own.workspace FROM (
    SELECT count(*) AS tenant, count(*) FILTER (WHERE workspace_id = %s) AS workspace
    FROM scheduling_job WHERE tenant_id = %s AND state IN ({_WAIT})
) own LEFT JOIN ({VERSION_SQL}) clock ON true
"""  # noqa: S608 (constants)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What levers have set for a tenant: nothing in it changes while the control clock stands."""

    policy: Policy
    held: bool
    workflows: dict[str, Workflow]
    missions: dict[str, Mission]
    executors: Executors
    """As if all were healthy and every circuit closed: those pass, the price does not."""

    def reviewers(self, data_class: str, workspace: Workspace, pool_id: str) -> list[Offer]:
        """Return the (provider, kind) of those who may ever review work of a workspace."""
        rows = {core.id: row for row, core in self.executors.get(pool_id, [])}
        review = types.Job(
            id="",
            seq=0,
            tenant=str(workspace.tenant_id),
            workspace=str(workspace.id),
            submitted_at=0,
            class_name=types.REVIEWS.name,
            kind=types.REVIEWS.name,
            data_class=data_class,
        )
        fitting = candidates(review, [core for _, core in self.executors.get(pool_id, [])])
        return sorted({(rows[one.id].provider, rows[one.id].kind) for one in fitting})

    def is_offered(self, model: str, pool_id: str) -> bool:
        """Tell whether any executor of the pool offers the model, whatever else it asks for."""
        return any(model in core.models for _, core in self.executors.get(pool_id, []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How many jobs wait for admission or for their turn.

    `total` over all tenants is None where the last snapshots of the pools say it. `classes` are the
    jobs, waiting or live, that the workspace has of the classes with a quota that were asked for.
    """

    workspace: int
    tenant: int
    total: int | None = None
    classes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What one transaction's verdicts go by; `backlog` None has not been counted."""

    workspace: Workspace
    version: Version
    settings: Settings
    backlog: Backlog | None
    outlook: Outlook

    @property
    def policy(self) -> Policy:
        """Return the active policy."""
        return self.settings.policy

    def waiting(self) -> dict[str, int]:
        """Return how many jobs wait by scope ("workspace", "tenant", "all").

        Raises `ValueError` where the backlog has not been counted.
        """
        backlog = self.backlog
        if backlog is None:
            raise ValueError("new jobs are judged by a catalogue that has counted the backlog")
        total = backlog.total
        if total is None:
            told = sum(one.header.total for one in self.outlook.values() if one.header)
            total = max(told, backlog.tenant)
        return {"all": total, "tenant": backlog.tenant, "workspace": backlog.workspace}


def catalogue_load(
    workspace: Workspace, now: datetime, *, counted: bool = False, outlook: Outlook | None = None
) -> Catalogue:
    """Read everything that submissions to this workspace are checked against.

    Must be called in the transaction of the verdicts, as its first reading. `counted`: with the
    backlog. A call of several sets hands on its `outlook`. Raises `PolicyVersion.DoesNotExist`.
    """
    version, backlog = _counted(workspace) if counted else (control_version(), None)
    settings = _settings.at(version, workspace.tenant_id)
    found: Outlook = {} if outlook is None else outlook
    for pool in {str(workflow.pool_id) for workflow in settings.workflows.values()} - found.keys():
        found[pool] = Foresight.read(valkey_client(), pool, now.timestamp())
    return Catalogue(
        workspace=workspace, version=version, settings=settings, backlog=backlog, outlook=found
    )


def _counted(workspace: Workspace) -> tuple[Version, Backlog]:
    with prepared() as cursor:
        cursor.execute(_FACTS, [workspace.id, workspace.tenant_id])
        number, writer, tenant, own = cursor.fetchone()
    version = NO_VERSION if number is None else (number, writer)
    return version, Backlog(workspace=own, tenant=tenant)


def _settings_read(tenant_id: uuid.UUID, version: Version) -> Settings:
    workflows = Workflow.objects.filter(tenant=tenant_id).select_related("pool")
    return Settings(
        policy=active_policy(version),
        held=Tenant.objects.get(id=tenant_id).held,
        workflows={workflow.slug: workflow for workflow in workflows},
        missions={m.slug: m for m in Mission.objects.filter(tenant=tenant_id)},
        executors=_executors.at(version, "all"),
    )


def _executors_read(_key: str, _version: Version) -> Executors:
    found: Executors = {}
    for row in Executor.objects.all():
        core = core_executor(row, slots=row.slots, available=True)
        found.setdefault(str(row.pool_id), []).append((row, core))
    return found


_settings = Remembered(_settings_read)
_executors = Remembered(_executors_read)


def offer_of(row: Executor, model: str) -> tuple[str, str]:
    """Return the (provider, model) under which an executor's work is priced."""
    if model or not row.models_offered:
        return (row.provider, model or row.kind)
    return (row.provider, row.models_offered[0])

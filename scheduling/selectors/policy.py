"""The policy in force, and executors and pools as the core sees them."""

from dataclasses import replace

from scheduling.core import types
from scheduling.core.policy.document import policy_from_dict
from scheduling.core.policy.settings import Policy
from scheduling.models import Executor, PolicyVersion, Pool


def active_policy() -> Policy:
    """Return the active policy version; raise `PolicyVersion.DoesNotExist` when there is none."""
    version = PolicyVersion.objects.get(state="active")
    return replace(policy_from_dict(version.body), number=version.number)


def core_pool(pool: Pool) -> types.Pool:
    """Return the pool as the core sees it."""
    return types.Pool(id=str(pool.id), budget=pool.budget, reserve=pool.reserve)


def core_executor(row: Executor, *, slots: int, available: bool) -> types.Executor:
    """Return the executor as the core sees it, with the slots that can really run now."""
    return types.Executor(
        id=str(row.id),
        kinds=frozenset(row.job_kinds),
        slots=slots,
        models=frozenset(row.models_offered),
        region=row.region,
        labels=frozenset(row.labels),
        weight=row.weight,
        tenant=str(row.tenant_id) if row.tenant_id else None,
        workspace=str(row.workspace_id) if row.workspace_id else None,
        available=available,
    )

"""The policy in force, and executors and pools as the core sees them."""

from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from scheduling.core import types
from scheduling.core.policy.document import policy_from_dict
from scheduling.core.policy.settings import Policy
from scheduling.models import Executor, PolicyVersion, Pool


def active_policy() -> Policy:
    """Return the active policy version; raise `PolicyVersion.DoesNotExist` when there is none."""
    active = PolicyVersion.objects.filter(state="active")
    found = active.values_list("number", "published_at").first()
    if found is None:
        raise PolicyVersion.DoesNotExist("no policy version is active; publish one")
    return _policy(*found)


@lru_cache(maxsize=8)
def _policy(number: int, _published_at: datetime) -> Policy:
    """Return a version's settings; they never change, so they are read once a process."""
    version = PolicyVersion.objects.get(number=number)
    return replace(policy_from_dict(version.body), number=number)


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

"""The policy in force, and executors and pools as the core sees them."""

from collections.abc import Sequence
from dataclasses import replace

from scheduling.core import types
from scheduling.core.policy.document import policy_from_dict
from scheduling.core.policy.limits import KEY_CAP
from scheduling.core.policy.settings import Policy
from scheduling.models import Circuit, Executor, PolicyVersion, Pool
from scheduling.selectors.circuits import HALF_OPEN, OPEN, model_by_default, models_in
from tenants.controls import Version, control_version
from tenants.remembered import Remembered


def active_policy(version: Version | None = None) -> Policy:
    """Return the active policy version, remembered while the control clock stands still.

    `version` is where the clock stands, if the caller has read it in this transaction already.
    Raises `PolicyVersion.DoesNotExist` when no policy is active.
    """
    return _policy.at(control_version() if version is None else version, "active")


def _read(state: str, _version: Version) -> Policy:
    version = PolicyVersion.objects.filter(state=state).first()
    if version is None:
        message = f"no policy version is {state}; publish one"
        raise PolicyVersion.DoesNotExist(message)
    return replace(policy_from_dict(version.body), number=version.number)


_policy = Remembered(_read)


def caps_by_default(policy: Policy) -> dict[str, int]:
    """Return the running caps of keys that have none of their own, by scope."""
    return {**KEY_CAP, **policy.default_caps.by_scope()}


def core_pool(pool: Pool) -> types.Pool:
    """Return the pool as the core sees it."""
    return types.Pool(id=str(pool.id), budget=pool.budget, reserve=pool.reserve)


def core_executor(
    row: Executor, *, slots: int, available: bool, circuits: Sequence[Circuit] = ()
) -> types.Executor:
    """Return the executor as the core sees it, with the slots that can really run now.

    `circuits` are those of it that are not closed.
    """
    return types.Executor(
        id=str(row.id),
        kinds=frozenset(row.job_kinds),
        slots=slots,
        models=frozenset(row.models_offered),
        region=row.region,
        labels=frozenset(row.labels),
        tools=frozenset(row.tools),
        data_classes=frozenset(row.data_classes),
        compute_class=row.compute_class,
        weight=row.weight,
        provider=row.provider,
        default_model=model_by_default(row),
        resting=models_in(circuits, OPEN),
        probing=models_in(circuits, HALF_OPEN),
        tenant=str(row.tenant_id) if row.tenant_id else None,
        workspace=str(row.workspace_id) if row.workspace_id else None,
        available=available,
    )

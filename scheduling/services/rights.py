"""What a submitter may ask for, by its permissions and the policy in force."""

from scheduling.models.workflow import RISKS
from scheduling.selectors.policy import active_policy
from scheduling.services.drafts import Rights
from tenants.models import Workspace
from tenants.rbac import Principal, asking_levels, job_types


def rights_of(principal: Principal, workspace: Workspace) -> Rights:
    """Return what a principal may ask for in a workspace by the policy in force.

    Raises `PolicyVersion.DoesNotExist`.
    """
    tenant, space = workspace.tenant_id, workspace.id
    levels = asking_levels(principal, tenant=tenant, workspace=space)
    policy = active_policy()
    return Rights(
        classes=frozenset(rule.name for rule in policy.classes if rule.asked_by in levels),
        kinds=job_types(principal, tenant=tenant, workspace=space),
        risks=frozenset(one for one in RISKS if getattr(policy.risk, one).asked_by in levels),
        above_quota=principal.is_operator,
    )

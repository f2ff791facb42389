"""Which permissions each role has: the one table that groups, keys and checks go by.

Theory. A permission is what may be done to a tenant or a workspace and to what it owns. A role is a
set of permissions, held on a tenant (and so in all of its workspaces) or on one workspace; an
operator's is held everywhere. The database keeps permissions, not roles: a role is a group whose
rows are set from this table, and a permission given apart from a role counts as much.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Permission(StrEnum):
    """What may be done to a tenant or a workspace and what it owns."""

    VIEW = "view"
    SUBMIT = "submit"
    CANCEL = "cancel"
    REVIEW = "review"
    COSTS = "costs"
    MANAGE = "manage"
    CHAT_USE = "chat:use"
    TOOLS_INVOKE = "tools:invoke"
    FLOWS_RUN = "flows:run"
    TASKS_RUN = "tasks:run"
    ASK_SUBMITTER = "ask:submitter"
    ASK_TENANT_ADMIN = "ask:tenant_admin"
    ASK_OPERATOR = "ask:operator"
    OPERATE = "operate"

    @property
    def codename(self) -> str:
        """The name of its row in the database."""
        return self.value.replace(":", "_")


JOB_TYPES = frozenset(
    {Permission.CHAT_USE, Permission.TOOLS_INVOKE, Permission.FLOWS_RUN, Permission.TASKS_RUN}
)
"""One for each type of job; a kind of job names the one that its submitters need."""
LEVELS: Mapping[Permission, str] = {
    Permission.ASK_SUBMITTER: "submitter",
    Permission.ASK_TENANT_ADMIN: "tenant_admin",
    Permission.ASK_OPERATOR: "operator",
}
"""The levels at which the policy lets classes be asked for (`ClassRule.asked_by`)."""

OPERATOR = "operator"
_WORK = JOB_TYPES | {
    Permission.VIEW,
    Permission.SUBMIT,
    Permission.CANCEL,
    Permission.ASK_SUBMITTER,
}
ROLE_PERMISSIONS: Mapping[str, frozenset[Permission]] = {
    OPERATOR: frozenset(Permission),
    "tenant_admin": frozenset(Permission) - {Permission.OPERATE, Permission.ASK_OPERATOR},
    "submitter": _WORK,
    "reviewer": frozenset({Permission.VIEW, Permission.REVIEW}),
    "billing_viewer": frozenset({Permission.COSTS}),
    "viewer": frozenset({Permission.VIEW}),
}
ROLES = list(ROLE_PERMISSIONS)

DECLARED: list[tuple[str, Any]] = [
    (Permission.VIEW.codename, "May see jobs, their order and their executors"),
    (Permission.SUBMIT.codename, "May submit jobs, requeue them and move them between classes"),
    (Permission.CANCEL.codename, "May cancel, pause and resume jobs"),
    (Permission.REVIEW.codename, "May review outcomes"),
    (Permission.COSTS.codename, "May see costs"),
    (Permission.MANAGE.codename, "May set weights and limits and read the audit"),
    (Permission.CHAT_USE.codename, "May submit chats"),
    (Permission.TOOLS_INVOKE.codename, "May submit tool calls"),
    (Permission.FLOWS_RUN.codename, "May submit flows"),
    (Permission.TASKS_RUN.codename, "May submit tasks"),
    (Permission.ASK_SUBMITTER.codename, "May ask for the classes of submitters"),
    (Permission.ASK_TENANT_ADMIN.codename, "May ask for the classes of tenant admins"),
    (Permission.ASK_OPERATOR.codename, "May ask for the classes of operators"),
    (Permission.OPERATE.codename, "Operates the whole: all of these, everywhere"),
]
"""The permissions as both models declare them."""

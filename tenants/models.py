"""Who: the tenants, their workspaces, members and keys, and the audit of every lever.

Hot queries and their indexes: a key is looked up by its unique `prefix`; object permissions by
group or user, with which their unique indexes begin; the audit is read newest first by its number,
which is the primary key.

The rows of object permissions point at their object with a foreign key, not by its name: they
cannot outlive it, however it is deleted, and no later object can come by them.
"""

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from tenants.ids import new_id
from tenants.roles import DECLARED, ROLES


class Tenant(models.Model):
    """An organisation: the unit of isolation, weight, hold and billing.

    `weight` is the last positive weight; `held` is the flag beside it (weight 0 at the lever).
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    weight = models.PositiveIntegerField(default=1)
    held = models.BooleanField(default=False)
    max_running = models.PositiveIntegerField(null=True, blank=True)
    timezone = models.CharField(max_length=63, default="UTC")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        """Constraints and permissions."""

        ordering: ClassVar = ["slug", "id"]
        permissions: ClassVar = DECLARED
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(weight__gte=1, weight__lte=1000), name="tenant_weight_1_to_1000"
            ),
            models.CheckConstraint(
                condition=Q(max_running=None) | Q(max_running__gte=1), name="tenant_max_running"
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class Workspace(models.Model):
    """A team inside a tenant; owns API keys and jobs."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="workspaces")
    slug = models.SlugField(max_length=63)
    name = models.CharField(max_length=200)
    weight = models.PositiveIntegerField(default=1)
    max_running = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        """Constraints and permissions."""

        ordering: ClassVar = ["slug", "id"]
        permissions: ClassVar = DECLARED
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "slug"], name="workspace_slug_in_tenant"),
            models.CheckConstraint(
                condition=Q(weight__gte=1, weight__lte=1000), name="workspace_weight_1_to_1000"
            ),
            models.CheckConstraint(
                condition=Q(max_running=None) | Q(max_running__gte=1),
                name="workspace_max_running",
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class Membership(models.Model):
    """A user's role in a tenant, or in one workspace of it: who has it is in the role's group.

    An operator's membership has no tenant: operators see all of them.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    tenant = models.ForeignKey(
        Tenant, models.CASCADE, null=True, blank=True, related_name="memberships"
    )
    workspace = models.ForeignKey(
        Workspace, models.CASCADE, null=True, blank=True, related_name="memberships"
    )
    role = models.CharField(max_length=20, choices=[(role, role) for role in ROLES])

    class Meta:
        """Constraints."""

        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["user", "tenant", "workspace", "role"],
                name="membership_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(condition=Q(role__in=ROLES), name="membership_role_known"),
            models.CheckConstraint(
                condition=Q(role="operator", tenant=None, workspace=None)
                | (~Q(role="operator") & Q(tenant__isnull=False)),
                name="membership_operator_has_no_tenant",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} {self.role}"


class RoleGroup(Group):
    """The users that hold a role on a tenant, on a workspace of it or, as operators, everywhere."""

    tenant = models.ForeignKey(
        Tenant, models.CASCADE, null=True, blank=True, related_name="role_groups"
    )
    workspace = models.ForeignKey(
        Workspace, models.CASCADE, null=True, blank=True, related_name="role_groups"
    )
    role = models.CharField(max_length=20, choices=[(role, role) for role in ROLES])

    objects: ClassVar[models.Manager["RoleGroup"]] = models.Manager()  # type: ignore[assignment]

    class Meta:
        """Constraints."""

        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "workspace", "role"],
                name="role_group_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(role="operator", tenant=None, workspace=None)
                | (~Q(role="operator") & Q(tenant__isnull=False)),
                name="role_group_operator_has_no_tenant",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class TenantGroupPermission(GroupObjectPermissionBase):
    """A permission of a group on a tenant."""

    content_object = models.ForeignKey(Tenant, models.CASCADE)


class TenantUserPermission(UserObjectPermissionBase):
    """A permission of a user on a tenant, apart from any role."""

    content_object = models.ForeignKey(Tenant, models.CASCADE)


class WorkspaceGroupPermission(GroupObjectPermissionBase):
    """A permission of a group on a workspace."""

    content_object = models.ForeignKey(Workspace, models.CASCADE)


class WorkspaceUserPermission(UserObjectPermissionBase):
    """A permission of a user on a workspace, apart from any role."""

    content_object = models.ForeignKey(Workspace, models.CASCADE)


class ApiKey(models.Model):
    """A workspace's key. The secret is shown once; only its hash is kept."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    role = models.CharField(max_length=20, choices=[(r, r) for r in ROLES], default="submitter")
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    hash = models.CharField(max_length=64, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["-created_at", "id"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(role__in=[r for r in ROLES if r != "operator"]),
                name="api_key_is_no_operator",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix})"


class ControlClock(models.Model):
    """One row that numbers every lever and policy change, in the order of their commits.

    The row lock makes changes wait for each other, so a reader that sees number n has seen all
    before it: no change can commit late and be missed.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    number = models.PositiveBigIntegerField(default=0)

    class Meta:
        """Constraints."""

        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(id=1), name="control_clock_is_one_row")
        ]

    def __str__(self) -> str:
        return str(self.number)


class AuditEntry(models.Model):
    """Who changed what, when, from what to what, and why. Append-only (a trigger holds it)."""

    number = models.PositiveBigIntegerField(primary_key=True)
    at = models.DateTimeField(db_default=Now(), editable=False)
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=60)
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True, related_name="+")
    target_type = models.CharField(max_length=40)
    target_id = models.CharField(max_length=64)
    before = models.JSONField()
    after = models.JSONField()
    reason = models.TextField()

    class Meta:
        """Order and indexes."""

        ordering: ClassVar = ["-number"]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "-number"], name="audit_by_tenant"),
            models.Index(fields=["target_type", "target_id"], name="audit_by_target"),
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.action}"

"""Tenants in the admin. Every change made here is audited like a lever's.

The audit's number comes from the control clock, so the governor sees a change within a tick.
Nothing but memberships is deleted here: what has jobs or bills must stay.
"""

from typing import TYPE_CHECKING, ClassVar

from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.forms.models import model_to_dict
from django.http import HttpRequest

from tenants.controls import record_change
from tenants.models import ApiKey, AuditEntry, Membership, Tenant, Workspace
from tenants.services import member_remove

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Model]
else:
    ModelAdmin = admin.ModelAdmin  # generic for the type checker alone


class ReadOnly(ModelAdmin):
    """Shows rows and changes none."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False


class Audited(ModelAdmin):
    """Adds and edits rows, each with an audit entry of what was and what is."""

    def save_model(self, request: HttpRequest, obj: Model, form: object, change: bool) -> None:  # noqa: FBT001 (Django's signature)
        """Save and audit in one transaction."""
        before = type(obj)._default_manager.filter(pk=obj.pk).first() if change else None
        with transaction.atomic():
            super().save_model(request, obj, form, change)
            record_change(
                actor=request.user.get_username(),
                action=f"{obj._meta.model_name}_edit",
                tenant=obj if isinstance(obj, Tenant) else getattr(obj, "tenant", None),
                target=(str(obj._meta.model_name), str(obj.pk)),
                change=(_facts(before), _facts(obj)),
                reason="changed in the admin",
            )

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False


def _facts(row: Model | None) -> dict[str, str]:
    return {} if row is None else {name: str(value) for name, value in model_to_dict(row).items()}


@admin.register(Tenant)
class TenantAdmin(Audited):
    """Tenants with their weights."""

    list_display = ("slug", "name", "weight", "held", "max_running", "timezone")
    search_fields = ("slug", "name")


@admin.register(Workspace)
class WorkspaceAdmin(Audited):
    """Workspaces."""

    list_display = ("slug", "tenant", "name", "weight", "max_running")
    list_select_related = ("tenant",)
    search_fields = ("slug", "name", "tenant__slug")


@admin.register(Membership)
class MembershipAdmin(Audited):
    """Who has which role; giving and taking one is joining and leaving its group."""

    list_display = ("user", "role", "tenant", "workspace")
    list_select_related = ("user", "tenant", "workspace")
    list_filter = ("role",)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Let roles be taken by whom Django lets delete memberships."""
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        """Take the role and audit it."""
        who = request.user.get_username()
        member_remove(membership_id=obj.pk, acting_user=who, reason="removed in the admin")

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Model]) -> None:
        """Take each role and audit it."""
        for membership in queryset:
            self.delete_model(request, membership)


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnly):
    """Keys by name and prefix; the hash is not shown."""

    list_display = ("name", "prefix", "role", "workspace", "expires_at", "revoked_at")
    list_select_related = ("workspace",)
    exclude: ClassVar = ["hash"]


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnly):
    """The audit, newest first."""

    list_display = ("number", "at", "actor", "action", "target_type", "target_id", "reason")
    list_filter = ("action",)
    search_fields = ("actor", "target_id", "reason")
    show_full_result_count = False

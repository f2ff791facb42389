"""What operators alone see in the admin."""

from django.db.models import Model
from django.http import HttpRequest

from tenants.admin import ReadOnly
from tenants.rbac import principal_of_user


class OperatorsOnly(ReadOnly):
    """Rows that operators look at; nobody else knows of them."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Let operators in."""
        return principal_of_user(request.user).is_operator

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Let operators in."""
        return self.has_module_permission(request)

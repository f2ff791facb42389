"""The app that says who: tenants, workspaces, members, keys, audit."""

from importlib import import_module

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Registers the app, and what keeps the groups of roles in step with memberships."""

    name = "tenants"

    def ready(self) -> None:
        """Load the receivers of the groups: they import models, which exist only now."""
        import_module("tenants.groups")

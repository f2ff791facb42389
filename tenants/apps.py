"""The app that says who: tenants, workspaces, members, keys, audit."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Registers the app."""

    name = "tenants"

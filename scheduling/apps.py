"""The app that says what runs next."""

from importlib import import_module

from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    """Registers the app, and its rows in the admin."""

    name = "scheduling"

    def ready(self) -> None:
        """Load the admin's modules: it looks for `scheduling.admin`, whose own file is empty."""
        for module in ("rows", "policies", "trials"):
            import_module(f"scheduling.admin.{module}")

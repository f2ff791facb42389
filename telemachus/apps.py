"""The project as an app: it carries the `up` and `demo` commands."""

from django.apps import AppConfig


class TelemachusConfig(AppConfig):
    """Registers the app."""

    name = "telemachus"

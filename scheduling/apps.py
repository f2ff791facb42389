"""The app that says what runs next."""

from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    """Registers the app."""

    name = "scheduling"

"""The app that says what it costs: rules, budgets, reservations, ledger."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    """Registers the app."""

    name = "billing"

"""`manage.py prepare`: what a database needs before anything may run on it."""

from django.core.management import call_command
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """Migrates and imports the prices, in one process: to load the project takes longer than either."""

    help = "Bring the schema and the price rules up to date; safe to repeat."
    requires_system_checks = []  # they may ask the tables that are only being made

    def handle(self, *_args: object, **_options: object) -> None:
        """Do one after the other."""
        call_command("migrate", interactive=False, verbosity=0, skip_checks=False)
        call_command("prices_import", stdout=self.stdout)

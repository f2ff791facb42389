"""`manage.py prices_import`: copy the seed prices into dated rules of our own."""

from django.core.management.base import BaseCommand
from django.utils import timezone

from billing.services.price_import import prices_import


class Command(BaseCommand):
    """Says what was added and what was left out."""

    help = "Bring the cost rules up to the installed genai-prices package; safe to repeat."

    def handle(self, *_args: object, **_options: object) -> None:
        """Import, and print the counts."""
        done = prices_import(now=timezone.now())
        self.stdout.write(f"{done.source}: {done.added} rules added")
        if done.kept:
            self.stdout.write(f"{done.kept} models left as published by hand")
        for reason, count in done.skipped.items():
            self.stdout.write(f"{count} prices not imported: {reason}")

"""`manage.py retention --days N`: forget jobs that ended more than N days ago. Run it daily."""

from datetime import timedelta

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from billing.services.reservations import reservations_forget
from scheduling.services.retention import SET_ROWS, jobs_forget


class Command(BaseCommand):
    """Deletes in short batches, so that it may run beside everything else."""

    help = "Forget jobs, attempts, events and decisions of long ago; the ledger is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        """How long to keep, and how many at most in this run."""
        parser.add_argument("--days", type=int, required=True, help="keep this many days")
        parser.add_argument("--most", type=int, default=1_000_000, help="jobs at most in this run")

    def handle(self, *_args: object, days: int, most: int, **_options: object) -> None:
        """Forget, and say how many."""
        if days < 1:
            raise CommandError(
                "--days must be at least 1: what ended today may still be looked at."
            )
        before = timezone.now() - timedelta(days=days)
        forgotten = 0
        while forgotten < most and (some := jobs_forget(before=before)):
            forgotten += some
        while reservations_forget(before=before, limit=SET_ROWS):
            pass
        self.stdout.write(f"{forgotten} jobs that ended before {before:%Y-%m-%d %H:%M} forgotten")

"""`manage.py budgets_check`: compare the cached balances with reservations and ledger."""

from django.core.management.base import BaseCommand, CommandError, CommandParser

from billing.services.checks import balances_differ, balances_repair


class Command(BaseCommand):
    """Prints each difference; exits 1 when there is one that was not repaired."""

    help = "Rebuild the balances of all budgets from their rows and report differences."

    def add_arguments(self, parser: CommandParser) -> None:
        """Offer the repair."""
        parser.add_argument("--repair", action="store_true", help="write the rebuilt sums")

    def handle(self, *_args: object, repair: bool, **_options: object) -> None:
        """Compare, and repair when asked."""
        differences = balances_repair() if repair else balances_differ()
        for difference in differences:
            self.stdout.write(str(difference))
        if not differences:
            self.stdout.write("all balances agree with their reservations and ledger rows")
        elif repair:
            self.stdout.write(f"{len(differences)} balances repaired")
        else:
            message = f"{len(differences)} balances differ; --repair writes the rebuilt sums"
            raise CommandError(message)

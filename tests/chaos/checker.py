"""`budgets_check` that stays: for each line on its input it compares all balances and answers.

python -m tests.chaos.checker
"""

import os
import sys

import django
from django.utils.module_loading import import_string as found

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")


def main() -> None:
    differ = found("billing.services.checks.balances_differ")
    close = found("django.db.close_old_connections")
    for _ in sys.stdin:
        differences = [str(one) for one in differ()]
        close()
        sys.stdout.write(f"{len(differences)} differ; {' | '.join(differences)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    django.setup()
    main()

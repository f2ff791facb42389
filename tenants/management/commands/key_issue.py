"""`manage.py key_issue TENANT/WORKSPACE NAME`: a new API key, shown once."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from tenants.controls import ControlRefused
from tenants.keys import KEY_ROLES, key_issue
from tenants.models import Workspace


class Command(BaseCommand):
    """Prints the secret alone on standard output, so that a script can take it."""

    help = "Issue an API key of a workspace; its secret is shown once and cannot be read again."

    def add_arguments(self, parser: CommandParser) -> None:
        """Whose key, and what it may do."""
        parser.add_argument("workspace", help="tenant/workspace, both by slug")
        parser.add_argument("name", help="what the key is for")
        parser.add_argument("--role", choices=KEY_ROLES, default="submitter")
        parser.add_argument("--by", default="console", help="who issues it, for the audit")
        parser.add_argument("--reason", default="issued on the console")

    def handle(self, *_args: object, **options: Any) -> None:  # noqa: ANN401 (Django's signature)
        """Issue it."""
        tenant, _, slug = options["workspace"].partition("/")
        workspace = Workspace.objects.filter(tenant__slug=tenant, slug=slug).first()
        if workspace is None:
            message = (
                f"There is no workspace {options['workspace']!r}; name it as tenant/workspace."
            )
            raise CommandError(message)
        try:
            _, secret = key_issue(
                workspace=workspace,
                name=options["name"],
                role=options["role"],
                acting_user=options["by"],
                reason=options["reason"],
            )
        except ControlRefused as refused:
            raise CommandError(refused.sentence) from refused
        self.stdout.write(secret)

"""`manage.py up`: the whole system on this machine, until Ctrl-C."""

import argparse

from django.core.management.base import BaseCommand, CommandError, CommandParser

from telemachus.local.console import Console
from telemachus.local.errors import LocalServiceError
from telemachus.local.home import home_folder
from telemachus.local.installation import Installation, Options

DEFAULTS = Options()


def port_number(text: str) -> int:
    """A TCP port that can be listened on."""
    return _whole(text, least=1, most=65535)


def process_count(text: str) -> int:
    """How many worker processes."""
    return _whole(text, least=1, most=64)


def thread_count(text: str) -> int:
    """How many threads in each."""
    return _whole(text, least=1, most=512)


def _whole(text: str, *, least: int, most: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        message = f"{text!r} is no whole number from {least} to {most}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


class Command(BaseCommand):
    """Starts PostgreSQL and Valkey (unless their URLs are given), migrates, runs the processes."""

    help = (
        "Run the whole system here: PostgreSQL and Valkey (unless DATABASE_URL, REDIS_URL are "
        "set), migrations, web, governor and workers. Ctrl-C stops it; a second one hurries."
    )
    requires_system_checks = []  # they may ask the database, which this very command starts

    def add_arguments(self, parser: CommandParser) -> None:
        """The few options."""
        parser.add_argument("--host", default=DEFAULTS.host, help="address to listen on")
        parser.add_argument("--port", type=port_number, default=DEFAULTS.port, help="web port")
        parser.add_argument(
            "--workers", type=process_count, default=DEFAULTS.workers, help="worker processes"
        )
        parser.add_argument(
            "--threads", type=thread_count, default=DEFAULTS.threads, help="threads per worker"
        )
        parser.add_argument("--no-web", action="store_true", help="no web process")
        parser.add_argument(
            "--model-port", type=port_number, help="run the demo's translating model there too"
        )
        parser.add_argument(
            "--model-delay", type=float, default=0.0, help="seconds that the model adds to each"
        )

    def handle(
        self,
        *_args: object,
        host: str,
        port: int,
        workers: int,
        threads: int,
        model_port: int | None,
        model_delay: float,
        **options: object,
    ) -> None:
        """Run until stopped."""
        wanted = Options(
            host=host,
            port=port,
            workers=workers,
            threads=threads,
            web=not options["no_web"],
            model_port=model_port,
            model_delay_s=model_delay,
        )
        try:
            Installation(wanted, home=home_folder(), console=Console(self.stdout)).run()
        except LocalServiceError as error:
            raise CommandError(str(error)) from error

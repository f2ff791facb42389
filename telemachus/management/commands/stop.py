"""`manage.py stop`: end a running `up`, then the embedded servers that stayed behind."""

import os
import signal
import time

from django.core.management.base import BaseCommand, CommandError

from telemachus.local import services
from telemachus.local.errors import LocalServiceError
from telemachus.local.home import home_folder, instance_pid

WAIT_S = 30.0


class Command(BaseCommand):
    """Stops what `manage.py up` (or a test run) started on this home folder."""

    help = "Stop `manage.py up` and the embedded PostgreSQL and Valkey of this home folder."
    requires_system_checks = []  # they may ask the database, which may be down

    def handle(self, *_args: object, **_options: object) -> None:
        """Stop, and say what was stopped."""
        try:
            self._stop()
        except LocalServiceError as error:
            raise CommandError(str(error)) from error

    def _stop(self) -> None:
        home = home_folder().resolve()
        pid = instance_pid(home)
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + WAIT_S
            while instance_pid(home) == pid:
                if time.monotonic() > deadline:
                    message = f"`manage.py up` (pid {pid}) does not stop: end it with kill -9 {pid}"
                    raise LocalServiceError(message)
                time.sleep(0.1)
        both = (services.POSTGRES, services.VALKEY)
        live = [service.name for service in both if service.url(home) is not None]
        services.stop(both, home)
        stopped = [*(["up"] if pid is not None else []), *live]
        self.stdout.write(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")

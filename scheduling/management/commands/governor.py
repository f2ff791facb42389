"""`manage.py governor`: the process that holds the order. Any number may run; one leads."""

import logging
import signal
from threading import Event
from types import FrameType

import psycopg
from django.core.management.base import BaseCommand
from django.db import DatabaseError, InterfaceError, connection

from scheduling.governor import lease
from scheduling.governor.loop import lead
from tenants.prepared import prefer_indexes

log = logging.getLogger(__name__)

TRY_EVERY_S = 0.5
IDLE_IN_TRANSACTION_MS = 1500


class Command(BaseCommand):
    """Takes the lease when it is free, leads, and begins anew when leadership ends."""

    help = "Order the backlog and dispatch it. Any number may run; one leads."

    def handle(self, *_args: object, **_options: object) -> None:
        """Run until SIGTERM or Ctrl-C."""
        prefer_indexes()
        stopping = Event()

        def stop(_number: int, _frame: FrameType | None) -> None:
            stopping.set()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        while not stopping.is_set():
            _serve(stopping)
        log.info("governor stopped")


def _serve(stopping: Event) -> None:
    try:
        _prepare_session()
        epoch = lease.take(lease.holder_name())
        if epoch is None:
            stopping.wait(TRY_EVERY_S)
            return
        lead(epoch, stopping)
    except lease.LeadershipLost:
        log.warning("leadership lost; standing by")
    except (DatabaseError, InterfaceError, psycopg.Error) as error:
        log.warning("database trouble, beginning anew: %s", _first_line(error))
        connection.close()
        stopping.wait(TRY_EVERY_S)


def _prepare_session() -> None:
    """Let the server end a transaction that this process was frozen in, so others can lead."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET idle_in_transaction_session_timeout = {IDLE_IN_TRANSACTION_MS}")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"

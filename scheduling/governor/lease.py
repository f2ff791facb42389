"""Leadership: one row, database time, an epoch.

Whoever holds the row's unexpired lease leads. Each write of a leader checks the epoch in its own
statement, so a leader that froze and woke again changes nothing, whatever it believes. An advisory
lock alone would leave a frozen leader in charge for as long as it sleeps.
"""

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import DatabaseError, OperationalError, connection, transaction

log = logging.getLogger(__name__)

NAME = "leader"
RENEW_S = 1.0
KEPT_MOST_S = 120.0
"""How long a lease is kept while its holder loads: one that takes longer hangs, others shall lead."""
HOLDS = (
    "SELECT epoch FROM scheduling_governorlease WHERE name = 'leader' AND epoch = %(epoch)s "
    "AND expires_at > clock_timestamp() FOR SHARE"
)
"""The guard that every leader's statement begins with, as a CTE named `lead`."""


class LeadershipLost(Exception):
    """Another governor leads, or the lease ran out; nothing was written."""


def holder_name() -> str:
    """Return who asks: host and process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def take(holder: str) -> int | None:
    """Take the lease if it is free; return the new epoch, or None.

    The row is locked first and the expiry computed by a second statement: computed before a wait
    for the lock, it would be stale at birth.
    """
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '500ms'")
            cursor.execute(
                "INSERT INTO scheduling_governorlease (name, holder, epoch, expires_at) "
                "VALUES (%s, '', 0, '-infinity') ON CONFLICT (name) DO NOTHING",
                [NAME],
            )
            cursor.execute(
                "SELECT 1 FROM scheduling_governorlease WHERE name = %s FOR UPDATE", [NAME]
            )
            cursor.execute(
                "UPDATE scheduling_governorlease SET holder = %s, epoch = epoch + 1, "
                "expires_at = clock_timestamp() + make_interval(secs => %s) "
                "WHERE name = %s AND expires_at < clock_timestamp() RETURNING epoch",
                [holder, settings.GOVERNOR_LEASE_S, NAME],
            )
            row = cursor.fetchone()
    except OperationalError:
        return None
    return None if row is None else int(row[0])


def renew(epoch: int) -> bool:
    """Extend the lease of `epoch`; False: it had run out, but nobody has led since.

    While nobody took it, what its holder knows still stands, and between expiry and renewal it
    could write nothing. Raises `LeadershipLost` when somebody did.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH mine AS MATERIALIZED (SELECT expires_at > clock_timestamp() AS held "
            "FROM scheduling_governorlease WHERE name = %s AND epoch = %s FOR UPDATE) "
            "UPDATE scheduling_governorlease g "
            "SET expires_at = clock_timestamp() + make_interval(secs => %s) "
            "FROM mine WHERE g.name = %s AND g.epoch = %s RETURNING mine.held",
            [NAME, epoch, settings.GOVERNOR_LEASE_S, NAME, epoch],
        )
        row = cursor.fetchone()
    if row is None:
        raise LeadershipLost
    return bool(row[0])


@contextmanager
def kept(epoch: int) -> Iterator[None]:
    """Renew the lease from a thread of its own while its holder is busy loading."""
    done = threading.Event()
    thread = threading.Thread(target=_keep, args=(epoch, done), name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _keep(epoch: int, done: threading.Event) -> None:
    try:
        for _ in range(int(KEPT_MOST_S / RENEW_S)):
            renew(epoch)
            if done.wait(RENEW_S):
                return
    except (LeadershipLost, DatabaseError) as error:
        log.warning("the lease is not renewed while loading: %s", type(error).__name__)
    finally:
        connection.close()


def give_up(epoch: int) -> None:
    """End the lease of `epoch` now, so that another governor leads at once."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduling_governorlease SET expires_at = clock_timestamp() "
            "WHERE name = %s AND epoch = %s",
            [NAME, epoch],
        )


def require(epoch: int) -> None:
    """Check the epoch inside a transaction; raise `LeadershipLost` when it is over."""
    with connection.cursor() as cursor:
        cursor.execute(HOLDS, {"epoch": epoch})
        if cursor.fetchone() is None:
            raise LeadershipLost

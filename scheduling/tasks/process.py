"""One worker process: who it is, that it lives, what it runs, and how its results are settled.

A process registers a Worker row and holds a session advisory lock of that row's id on a connection
of its own: when the process dies, however, PostgreSQL frees the lock and the governor knows at
once. A frozen process keeps the lock but not its lease, which a thread renews each second in one
statement for all that truly runs here or waits to be settled. What the rows say is here and the
process does not know of (its claim was written, the answer never came) is not renewed, and so given
up in time. The same statement brings back what was asked to stop.

A beat that comes after its lease was over, and before anybody was told to do the work anew, adopts
it again, and the story says so. An attempt that was settled as lost stays lost, even if its job still
waits: its late result is kept as evidence and its usage booked, and the job goes by its next fence.

Results are settled in sets by one thread (until none came for 20 ms, at most 100 ms or 200 results); work that is not idempotent is
settled by the thread that ran it, at once. A set that cannot be written (the database is away) is
kept and tried again: results are not lost, and a fence makes a second writing harmless. A result
that is itself at fault (nothing prices it) is put off, and stops none of the others.
"""

import logging
import os
import queue
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import psycopg
from django.conf import settings
from django.db import InterfaceError, close_old_connections, connection
from django.db.utils import OperationalError

from scheduling.services.settlement import Report, attempts_settle
from tenants.connections import connections_renew

log = logging.getLogger(__name__)

LOCK_SPACE = 7_401
"""The first key of the workers' advisory locks; the second is the worker's id."""
BEAT_S = 1.0
SET_WAIT_S = 0.02
SET_LONGEST_S = 0.1
SET_MOST = 200
RETRY_S = 0.5
PUT_OFF_S = 10.0
LOCK_WAIT_S = 30

_HEARTBEAT = """
WITH mine AS (
    SELECT id, job_id, fence, lease_until < clock_timestamp() AS late FROM scheduling_attempt
    WHERE worker_id = %(worker)s AND state IN ('running', 'stopping')
      AND id = ANY(%(held)s::uuid[])
    ORDER BY id FOR UPDATE SKIP LOCKED
), renewed AS (
    UPDATE scheduling_attempt a SET lease_until = clock_timestamp() + make_interval(secs => %(s)s)
    FROM mine WHERE a.id = mine.id RETURNING a.id, a.state
), adopted AS (
    INSERT INTO scheduling_jobevent (job_id, tenant_id, attempt_id, event, reason, data, at)
    SELECT j.id, j.tenant_id, mine.id, 'adopted', '', jsonb_build_object('fence', mine.fence),
        clock_timestamp()
    FROM mine JOIN scheduling_job j ON j.id = mine.job_id WHERE mine.late ORDER BY j.seq
), seen AS (
    UPDATE scheduling_worker SET seen_at = clock_timestamp(), threads = %(threads)s
    WHERE id = %(worker)s
)
SELECT id FROM renewed WHERE state = 'stopping'
"""


@dataclass(slots=True)
class Process:
    """This process as the scheduler knows it; `cancels` are the events of what runs here.

    `abandoned` are results that the collector hands over: unlike `results` it takes no lock, for it
    may be filled by the very thread that is just about to fill or read that. `settled` is set when, after `stopping`, the last result has been written: until then the beat
    goes on, or what is still being settled would be taken for lost.
    """

    worker_id: int
    threads: int
    cancels: dict[uuid.UUID, threading.Event] = field(default_factory=dict)
    results: "queue.Queue[Report]" = field(default_factory=queue.Queue)
    abandoned: deque[Report] = field(default_factory=deque)
    stopping: threading.Event = field(default_factory=threading.Event)
    settled: threading.Event = field(default_factory=threading.Event)
    _put_off: list[tuple[float, Report]] = field(default_factory=list)
    _settling: set[uuid.UUID] = field(default_factory=set)
    _locked: threading.Event = field(default_factory=threading.Event)
    _workers: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Start the heartbeat and the settling; returns once the process's lock is held."""
        for job in (self._beat_forever, self._settle_forever):
            thread = threading.Thread(target=job, name=job.__name__, daemon=True)
            thread.start()
            self._workers.append(thread)
        if not self._locked.wait(LOCK_WAIT_S):
            message = "the worker could not take its lock in the database"
            raise RuntimeError(message)

    def stop(self) -> None:
        """Settle what is left, and say that no thread is here any more."""
        self.stopping.set()
        for thread in self._workers:
            thread.join(timeout=10)

    def _beat_forever(self) -> None:
        while not self.settled.is_set():
            try:
                with _session() as session:
                    self._hold_lock(session)
                    self._beat_while_connected(session)
            except psycopg.Error as error:
                log.warning("heartbeat failed, trying again: %s", type(error).__name__)
                connections_renew(error)
                self.settled.wait(RETRY_S)

    def _hold_lock(self, session: psycopg.Connection) -> None:
        session.execute("SELECT pg_advisory_lock(%s, %s)", (LOCK_SPACE, self.worker_id))
        self._locked.set()

    def _beat_while_connected(self, session: psycopg.Connection) -> None:
        while True:
            threads = 0 if self.stopping.is_set() else self.threads
            lease = settings.WORKER_LEASE_S
            values = {"worker": self.worker_id, "s": lease, "threads": threads, "held": self.held()}
            for (attempt_id,) in session.execute(_HEARTBEAT, values).fetchall():
                self.cancel(attempt_id)
            if self.settled.is_set():
                return
            self.settled.wait(BEAT_S)

    def held(self) -> list[uuid.UUID]:
        """Return the attempts that run here, or whose results are not settled yet.

        One that is on its way from one of these to the next is missed; the next beat has it.
        """
        with self.results.mutex:
            waiting = [report.attempt_id for report in self.results.queue]
        put_off = [report.attempt_id for _, report in list(self._put_off)]
        dropped = [report.attempt_id for report in self.abandoned.copy()]
        return [*list(self.cancels), *waiting, *dropped, *put_off, *list(self._settling)]

    def cancel(self, attempt_id: uuid.UUID) -> None:
        """Tell an attempt that runs here to stop."""
        event = self.cancels.get(attempt_id)
        if event is not None:
            event.set()

    def _settle_forever(self) -> None:
        while not (self.stopping.is_set() and self.results.empty() and not self.abandoned):
            self.settle_now(self._due() + self._gather() + self._dropped())
        self.settled.set()

    def settle_now(self, reports: Sequence[Report]) -> None:
        """Settle at once, trying again for as long as the database is away."""
        ids = {report.attempt_id for report in reports}
        self._settling |= ids
        while reports and not self._settled(reports):
            time.sleep(RETRY_S)
        self._settling -= ids

    def _settled(self, reports: Sequence[Report]) -> bool:
        try:
            done = attempts_settle(reports=reports, now=datetime.now(UTC))
        except (OperationalError, InterfaceError, psycopg.OperationalError) as error:
            log.warning("results kept, settling again soon: %s", type(error).__name__)
            connections_renew(error)
            return False
        except Exception:  # noqa: BLE001 (one result's fault must not end the settling of others)
            return self._settled_alone(reports)
        finally:
            close_old_connections()
        if done.stale:
            log.info("%d results came too late and changed nothing", done.stale)
        return True

    def _settled_alone(self, reports: Sequence[Report]) -> bool:
        """Settle one by one a set that has a faulty result in it; put that one off."""
        if len(reports) > 1:
            return all(self._settled([report]) for report in reports)
        log.exception("attempt %s cannot be settled now and is put off", reports[0].attempt_id)
        self._put_off.append((time.monotonic() + PUT_OFF_S, reports[0]))
        return True

    def _due(self) -> list[Report]:
        """Return the results that were put off and whose time has come."""
        clock = time.monotonic()
        due = [one for one in self._put_off if one[0] <= clock]
        for one in due:
            self._put_off.remove(one)
        return [report for _, report in due]

    def _dropped(self) -> list[Report]:
        return [self.abandoned.popleft() for _ in range(len(self.abandoned))]

    def _gather(self) -> list[Report]:
        try:
            reports = [self.results.get(timeout=0.2)]
        except queue.Empty:
            return []
        end = time.monotonic() + SET_LONGEST_S
        while len(reports) < SET_MOST and (left := end - time.monotonic()) > 0:
            try:
                reports.append(self.results.get(timeout=min(left, SET_WAIT_S)))
            except queue.Empty:
                break
        return reports


def _session() -> psycopg.Connection:
    """Return an autocommit connection outside Django's pool: its life is the process's life."""
    wanted = connection.get_connection_params()
    known = ("host", "port", "user", "password", "dbname", "connect_timeout", "sslmode")
    given = {name: wanted[name] for name in known if wanted.get(name) is not None}
    return psycopg.connect(**given, autocommit=True, application_name="telemachus-worker")


_lock = threading.Lock()
_current: dict[int, Process] = {}


def present(*, threads: int, queues: Sequence[str]) -> Process:
    """Return this process, registering it at the first call (and anew after a fork)."""
    with _lock:
        process = _current.get(os.getpid())
        if process is None:
            process = Process(_register(threads, queues), threads)
            _current.clear()
            _current[os.getpid()] = process
            process.start()
        return process


def leave() -> None:
    """Stop this process's threads, if it ever registered."""
    with _lock:
        process = _current.pop(os.getpid(), None)
    if process is not None:
        process.stop()


def _register(threads: int, queues: Sequence[str]) -> int:
    with _session() as session:
        row = session.execute(
            "INSERT INTO scheduling_worker (name, queues, threads) "
            "VALUES (%s, to_jsonb(%s::text[]), %s) RETURNING id",
            (f"{socket.gethostname()}:{os.getpid()}", list(queues), threads),
        ).fetchone()
    if row is None:
        message = "the worker could not be registered"
        raise RuntimeError(message)
    return int(row[0])

"""The systems under test behind one face: fresh rows, worker processes, a client, "all done".

Each runs two worker processes under Telemachus' own supervisor, which starts a killed one again.
`done` means: settled in the database for Telemachus, marked done in the database for procrastinate
and DBOS. Celery alone keeps no such record: there the start of the last no-op has to do, which
flatters it.
"""

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg

from bench.places import Places, environment, plain_environ
from bench.stamps import FOLDER_VARIABLE
from telemachus.local.child import Child
from telemachus.local.home import BASE_DIR
from telemachus.local.installation import ROWS, STATIC, Options, children
from telemachus.local.supervisor import Supervisor

THREADS = 4
"""Jobs that a worker process of Telemachus, and of procrastinate, runs at a time."""
SCENE = "life_scene"
UNFINISHED = (
    "SELECT count(*) FROM scheduling_job "
    "WHERE state IN ('deferred', 'queued', 'running', 'waiting')"
)
STARTS = (
    "SELECT extract(epoch FROM j.submitted_at)::float8, extract(epoch FROM a.started_at)::float8 "
    "FROM scheduling_job j JOIN scheduling_attempt a ON a.job_id = j.id AND a.fence = 1 "
    "ORDER BY j.seq"
)
BROKER_OWN, BROKER_CELERY = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is asked of a system, beside the common phases.

    `kill_jobs` of `kill_s` seconds are so many that the kill falls among them; `slots` run at a
    time. `stamps`: its no-op writes them. `recorded`: its database tells what is done.
    """

    kill_jobs: int = 60
    kill_s: float = 0.1
    slots: int = 2
    stamps: bool = True
    recorded: bool = True


class System(Protocol):
    """One system under test."""

    name: str
    shape: Shape

    def prepare(self) -> None:
        """Install what is missing, once a run."""

    def renew(self) -> None:
        """Begin with no jobs at all; no worker may run."""

    def processes(self, *, kill: bool) -> list[Child]:
        """Return the long-lived processes; `kill`: laid out so that one worker can be killed."""

    def client(self, *arguments: str) -> Child:
        """Return the submitting process."""

    def unfinished(self) -> int:
        """Return how many recorded jobs are not done yet."""

    def recorded(self) -> list[tuple[float, float]]:
        """Return (submitted, started) of all jobs that its database tells, oldest first."""

    def victim(self, pids: Mapping[str, int]) -> int:
        """Return the process id of the worker to kill, one that is at work."""


def _child(name: str, argv: Sequence[str], env: dict[str, str]) -> Child:
    return Child(name=name, argv=tuple(argv), env=env, cwd=BASE_DIR)


class Session:
    """One kept connection: logging in costs the server some milliseconds, which polling must not."""

    def __init__(self, url: str) -> None:
        """Remember where; the first question connects."""
        self._url = url
        self._session: psycopg.Connection | None = None

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return a statement's rows."""
        if self._session is None:
            self._session = psycopg.connect(self._url, autocommit=True)
        return self._session.execute(statement).fetchall()

    def close(self) -> None:
        """Leave the database, which is made anew next."""
        if self._session is not None:
            self._session.close()
            self._session = None


class Telemachus:
    """The product, as `manage.py up --no-web` runs it; `web` adds the web and submits by HTTP."""

    def __init__(self, places: Places, *, web_port: int | None = None) -> None:
        """Remember the places."""
        self.name = "telemachus" if web_port is None else "telemachus over HTTP"
        self.shape = Shape(kill_jobs=30 * 2 * THREADS, slots=2 * THREADS, stamps=False)
        self._places = places
        self._options = Options(port=web_port or 8000, web=web_port is not None, threads=THREADS)
        self.env = plain_environ() | {
            "TELEMACHUS_HOME": str(places.home),
            "DATABASE_URL": places.database("life"),
            "REDIS_URL": places.broker(BROKER_OWN),
            "LOG_LEVEL": "WARNING",
        }
        self._session = Session(self.env["DATABASE_URL"])

    def prepare(self) -> None:
        """Migrate a database and set the scene in it; every renewal copies that."""
        url = self._places.database_renew(SCENE)
        self._places.broker_empty(BROKER_OWN)
        env = self.env | {"DATABASE_URL": url}
        manage = [sys.executable, str(BASE_DIR / "manage.py")]
        for command in (STATIC, ROWS):
            subprocess.run([*manage, *command], env=env, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        subprocess.run([*self._app(), "prepare"], env=env, check=True)  # noqa: S603

    def renew(self) -> None:
        """Copy the scene."""
        self._session.close()
        self._places.database_renew("life", template=SCENE)
        self._places.broker_empty(BROKER_OWN)

    def processes(self, *, kill: bool) -> list[Child]:
        """Return governor, control worker and two workers; the same for a kill."""
        del kill
        return children(self._options, self.env)

    def stages(self, size: int, sets: int) -> str:
        """Return what each stage costs, statement by statement; no governor may run."""
        self.renew()
        argv = [sys.executable, "-m", "bench.stages", "--set", str(size), "--sets", str(sets)]
        done = subprocess.run(  # noqa: S603 (our own module)
            argv, env=self.env, cwd=BASE_DIR, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout

    def client(self, *arguments: str) -> Child:
        """Submit in the client's own process, or over HTTP."""
        web = {"BENCH_WEB": self._options.address} if self._options.web else {}
        return _child("client", [*self._app(), *arguments], self.env | web)

    def unfinished(self) -> int:
        """Return how many jobs have not ended (settled, booked, told: one transaction)."""
        return int(self._session.rows(UNFINISHED)[0][0])

    def recorded(self) -> list[tuple[float, float]]:
        """Return the jobs with the starts of their first attempts, by the database's clock."""
        return [(at, started) for at, started in self._session.rows(STARTS)]

    def victim(self, pids: Mapping[str, int]) -> int:
        """Return the first worker's."""
        return pids["worker-1"]

    def _app(self) -> list[str]:
        return [sys.executable, "-m", "bench.client", "bench.own_app"]


class CeleryAlone:
    """Celery 5 with prefork workers on the same Valkey."""

    name = "celery"
    shape = Shape(recorded=False)

    def __init__(self, places: Places) -> None:
        """Remember the places."""
        self._places = places
        self._env = plain_environ() | {
            "BENCH_BROKER_URL": places.broker(BROKER_CELERY),
            FOLDER_VARIABLE: str(places.stamps),
            "C_FORCE_ROOT": "1",
        }

    def prepare(self) -> None:
        """Install Celery."""
        environment("celery")

    def renew(self) -> None:
        """Empty the queue."""
        self._places.broker_empty(BROKER_CELERY)

    def processes(self, *, kill: bool) -> list[Child]:
        """Return one node with two processes; for a kill, two nodes with one each."""
        program = [str(environment("celery") / "celery"), "-A", "bench.peers.celery_app", "worker"]
        nodes, processes = (2, 1) if kill else (1, 2)
        return [
            _child(
                f"worker-{n}",
                [*program, "-P", "prefork", "-c", str(processes), "-l", "ERROR", "-n", f"w{n}@%h"],
                self._env,
            )
            for n in range(1, nodes + 1)
        ]

    def client(self, *arguments: str) -> Child:
        """Submit by Celery's client."""
        python = str(environment("celery") / "python")
        return _child(
            "client",
            [python, "-m", "bench.client", "bench.peers.celery_app", *arguments],
            self._env,
        )

    def unfinished(self) -> int:
        """Celery alone keeps no record: the stamps have to do."""
        return 0

    def recorded(self) -> list[tuple[float, float]]:
        """Nothing is recorded."""
        return []

    def victim(self, pids: Mapping[str, int]) -> int:
        """Return the first node's, which dies with its pool process."""
        return pids["worker-1"]


class _OnPostgres:
    """What procrastinate and DBOS have in common."""

    name: str
    pending: str
    shape: Shape

    def __init__(self, places: Places) -> None:
        """Remember the places."""
        self._places = places
        self._env = plain_environ() | {
            "BENCH_DATABASE_URL": places.database(f"life_{self.name}"),
            FOLDER_VARIABLE: str(places.stamps),
        }
        self._session = Session(self._env["BENCH_DATABASE_URL"])

    def prepare(self) -> None:
        """Install it."""
        environment(self.name)

    def renew(self) -> None:
        """Make its database anew."""
        self._session.close()
        self._places.database_renew(f"life_{self.name}")
        prepare = self.client("prepare")
        subprocess.run(prepare.argv, env=dict(prepare.env), cwd=prepare.cwd, check=True)  # noqa: S603

    def client(self, *arguments: str) -> Child:
        """Submit by its own client."""
        argv = [str(self.python), "-m", "bench.client", f"bench.peers.{self.name}_app", *arguments]
        role = {} if arguments[:1] == ("prepare",) else {"BENCH_ROLE": "client"}
        return _child("client", argv, self._env | role)

    def unfinished(self) -> int:
        """Ask its own table of jobs."""
        return int(self._session.rows(self.pending)[0][0])

    def recorded(self) -> list[tuple[float, float]]:
        """The stamps tell more."""
        return []

    def victim(self, pids: Mapping[str, int]) -> int:
        """Return the first worker's."""
        return pids["worker-1"]

    @property
    def python(self) -> Path:
        """Return the interpreter of its environment."""
        return environment(self.name) / "python"


class Procrastinate(_OnPostgres):
    """procrastinate with two workers of as many jobs at a time as Telemachus' have."""

    name = "procrastinate"
    pending = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
    shape = Shape(kill_jobs=30 * 2 * THREADS, slots=2 * THREADS)

    def processes(self, *, kill: bool) -> list[Child]:
        """Return two workers."""
        del kill
        app = ["-m", "procrastinate", "--app", "bench.peers.procrastinate_app.app", "worker"]
        argv = [str(self.python), *app, "--concurrency", str(THREADS)]
        return [_child(f"worker-{n}", argv, self._env) for n in (1, 2)]


class Dbos(_OnPostgres):
    """DBOS with two executors; a worker takes all that waits at once, so its kill needs long jobs."""

    name = "dbos"
    pending = "SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')"
    shape = Shape(kill_s=3.0, slots=60)

    def processes(self, *, kill: bool) -> list[Child]:
        """Return two executors, each with an id that it keeps when started again."""
        del kill
        argv = [str(self.python), "-m", "bench.peers.dbos_app", "work"]
        return [
            _child(f"worker-{n}", argv, self._env | {"BENCH_EXECUTOR": f"executor-{n}"})
            for n in (1, 2)
        ]

    def victim(self, pids: Mapping[str, int]) -> int:
        """Return the executor's that took the most: one often takes all."""
        stamps = self._places.stamps
        taken = {pid: (stamps / f"{pid}.bin") for pid in pids.values()}
        return max(taken, key=lambda pid: taken[pid].stat().st_size if taken[pid].exists() else 0)


class Running:
    """A system's processes under supervision, for the length of a `with` block."""

    def __init__(self, system: System, log: Path, *, kill: bool = False) -> None:
        """Get ready; nothing starts before the block."""
        self._log = log.open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self._supervisor = Supervisor(system.processes(kill=kill), write=self._write)
        self._thread = threading.Thread(target=self._supervisor.run, name=f"run-{system.name}")

    def __enter__(self) -> "Running":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._supervisor.request_stop()
        self._thread.join()
        self._log.close()

    def pids(self) -> dict[str, int]:
        """Return the process ids by name."""
        return self._supervisor.pids()

    def _write(self, name: str, line: str) -> None:
        with self._lock:
            self._log.write(f"{name} | {line}\n")
            self._log.flush()

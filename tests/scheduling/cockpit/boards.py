"""Order snapshots made by hand: two tenants, four workflows, as many rows as a test wants."""

import time
import uuid
from dataclasses import dataclass, field

from scheduling import snapshot
from scheduling.cockpit.board import Board
from scheduling.core.types import Reason

POOL = "00000000-0000-7000-8000-00000000000a"
REASONS = [reason.value for reason in Reason]
CLASSES = ["incident", "expedite", "critical", "normal", "batch"]
NAN = float("nan")
TENANTS = ("acme", "beta")
IDS = {name: str(uuid.uuid5(uuid.NAMESPACE_DNS, name)) for name in TENANTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One waiting job; `number` makes its id, `start` None means that it cannot start."""

    number: int
    tenant: str = "acme"
    workflow: str = "triage"
    workspace: int = 0
    cost: int = 1
    job_class: str = "normal"
    reason: Reason = Reason.IN_ORDER
    start: float | None = 60.0
    since: float = 0.0


def job_id(number: int) -> str:
    """Return the id of the job with this number."""
    return str(uuid.UUID(int=(0x7 << 76) | (0x2 << 62) | number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What a snapshot tells; `ids` are the tenants' ids by slug."""

    waiting: list[Waiting] = field(default_factory=list)
    running: list[Waiting] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=lambda: dict(IDS))
    at: float = 1_000_000.0
    epoch: int = 1
    workspaces: tuple[str, ...] = ("main", "labs")

    def header(self, seq: int) -> snapshot.Header:
        """Return the header of this story as version `seq`."""
        startable = sum(job.start is not None for job in self.waiting)
        return snapshot.Header(
            pool=POOL, slug="0-cockpit", epoch=self.epoch, seq=seq, at=self.at, policy=3, control=1,
            budget=8, reserve=1, in_use=sum(job.cost for job in self.running),
            startable=startable, total=len(self.waiting), clear_at=self.at + 900,
            clear_low=self.at + 800, clear_high=self.at + 1200,
            tenants=[self._tenant(slug) for slug in self.ids],
            workspaces=list(self.workspaces),
            workflows=[("w1", "triage"), ("w2", "secret-beta-flow"), ("w3", "review"), ("w4", "x")],
            classes=CLASSES, reasons=REASONS, executors=self._executors(),
            running=[self._running(job) for job in self.running],
            eta_mean_error_s=None, eta_hit_rate=None, rows_seq=seq,
        )  # fmt: skip

    def _tenant(self, slug: str) -> snapshot.TenantRow:
        waiting = sum(job.tenant == slug for job in self.waiting)
        live = [job for job in self.running if job.tenant == slug]
        return snapshot.TenantRow(
            id=self.ids[slug], slug=slug, name=f"{slug.title()} Works", weight=2, held=False,
            waiting=waiting, running=len(live), in_use=sum(job.cost for job in live),
            planned=0.5, actual=0.5, served=9, clear_at=self.at + 600,
        )  # fmt: skip

    def _executors(self) -> list[snapshot.ExecutorRow]:
        return [
            snapshot.ExecutorRow(
                id=name, slug=name, kind="local-model", slots=4, configured_slots=4, in_use=1,
                health="ok", circuit="closed", enabled=True, draining=False, tenant=tenant,
                models=["m"],
            )
            for name, tenant in [("gpu-a", None), ("gpu-beta-only", self.ids["beta"])]
        ]  # fmt: skip

    def _running(self, job: Waiting) -> snapshot.RunningRow:
        return snapshot.RunningRow(
            job=job_id(job.number), attempt=job_id(job.number), fence=1,
            tenant=list(self.ids).index(job.tenant), workflow=self._workflow(job), job_class=3,
            executor="gpu-a", cost=job.cost, started_at=self.at - 30, finish=self.at + 30,
            overdue=False, workspace=job.workspace,
        )  # fmt: skip

    @staticmethod
    def _workflow(job: Waiting) -> int:
        return ["triage", "secret-beta-flow", "review", "x"].index(job.workflow)

    def rows(self) -> snapshot.Rows:
        """Return the packed rows."""
        return snapshot.pack([self._row(job) for job in self.waiting])

    def _row(self, job: Waiting) -> tuple[object, ...]:
        start = NAN if job.start is None else self.at + job.start
        return (
            uuid.UUID(job_id(job.number)).bytes, list(self.ids).index(job.tenant), job.workspace,
            self._workflow(job), CLASSES.index(job.job_class), REASONS.index(job.reason),
            job.start is not None, False, job.cost, -1 if job.start is None else 7,
            self.at - 100 - job.since, start, start + 300, start + 250, start + 400,
        )  # fmt: skip

    def board(self, seq: int = 1) -> Board:
        """Return the board of this story."""
        return Board(header=self.header(seq), rows=self.rows())


def mixed(count: int, **options: object) -> Story:
    """Return a story in which acme and beta take turns."""
    waiting = [
        Waiting(
            number=n,
            tenant=TENANTS[n % 2],
            workflow=("triage", "secret-beta-flow")[n % 2],
            start=60.0 * (n + 1),
        )
        for n in range(count)
    ]
    return Story(waiting=waiting, at=options.pop("at", time.time()), **options)  # type: ignore[arg-type]

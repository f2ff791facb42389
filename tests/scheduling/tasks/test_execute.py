"""The task that runs attempts: from its message to the settled jobs, whatever happens between."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from scheduling.executors.contract import Capacity, ErrorClass, Health
from scheduling.executors.registry import SHARED
from scheduling.models import Attempt, Executor, Job
from scheduling.services.cancel import job_cancel
from scheduling.tasks import control, execute
from scheduling.tasks.claim import Claimed, attempts_claim
from scheduling.tasks.execute import attempts_run
from scheduling.tasks.process import Process
from tenants.models import Workspace
from tests.scheduling.factories import WHO, done, failed, place, submit
from tests.scheduling.tasks.test_process import settled, until


class Scripted:
    """An executor whose dispatch does what a test says."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.seen: list[str] = []

    def dispatch(self, work: Any, cancel_event: threading.Event) -> Any:
        self.seen.append(work.job_id)
        step = self.script.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    def health(self) -> Health:
        return Health.DEGRADED

    def capacity(self) -> Capacity:
        return Capacity(limit=1, in_use=0)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    executor = Scripted()
    monkeypatch.setattr(SHARED, "get", lambda _spec: executor)
    return executor


def message(attempts: list[Attempt]) -> list[tuple[str, int]]:
    return [(str(one.id), one.fence) for one in attempts]


def placed(space: Workspace, count: int = 1, **more: Any) -> list[Attempt]:
    return [place(job) for job in submit(space, count, **more)]


def live() -> int:
    return Attempt.objects.filter(state__in=["dispatched", "running", "stopping"]).count()


def test_a_message_of_three_is_run_and_settled(process: Process, acme: Workspace) -> None:
    attempts_run(message(placed(acme, 3)))
    assert until(settled(3))
    assert Job.objects.all()[0].result == {"simulated": True, "seconds": 0.0}
    assert process.cancels == {}


def test_a_dead_connection_is_tried_past_and_a_database_that_stays_away_is_not_waited_for(
    process: Process, acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = [True, False, True, True]

    def claim(**asked: Any) -> list[Claimed]:
        if deaths.pop(0):
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return attempts_claim(**asked)

    monkeypatch.setattr(execute, "attempts_claim", claim)
    attempts_run(message(placed(acme)))
    assert until(settled(1))
    with pytest.raises(OperationalError):
        attempts_run(message(placed(acme)))
    assert deaths == []


def test_the_same_message_again_runs_nothing(
    process: Process, acme: Workspace, scripted: Scripted
) -> None:
    scripted.script = [done()]
    told = message(placed(acme))
    attempts_run(told)
    attempts_run(told)
    assert until(settled(1))
    assert len(scripted.seen) == 1


def test_work_that_must_not_run_twice_is_settled_before_the_task_ends(
    process: Process, acme: Workspace
) -> None:
    attempts_run(message(placed(acme, idempotent=False)))
    assert settled(1)()


@pytest.mark.parametrize(
    "fault", [SystemExit(), KeyboardInterrupt(), GeneratorExit(), ValueError()]
)
@pytest.mark.parametrize("idempotent", [True, False])
def test_whatever_ends_a_run_nothing_stays_live(
    process: Process, acme: Workspace, scripted: Scripted, fault: BaseException, idempotent: bool
) -> None:
    scripted.script = [done(), fault]
    attempts = placed(acme, 4, idempotent=idempotent)
    with pytest.raises(type(fault)):
        attempts_run(message(attempts))
    assert until(lambda: live() == 0)
    assert len(scripted.seen) == 2
    ends = [Attempt.objects.get(id=one.id) for one in attempts]
    assert [one.error_class for one in ends] == ["", "internal", "canceled", "canceled"]
    assert [one.charge_due for one in ends] == [None, None, 0, 0]
    jobs = [Job.objects.get(id=one.job_id) for one in attempts]
    assert [(job.state, job.tries) for job in jobs] == [
        ("done", 0), ("waiting" if idempotent else "failed", 1), ("waiting", 0), ("waiting", 0),
    ]  # fmt: skip
    assert process.cancels == {}


def test_a_failure_is_handed_over_like_a_success(
    process: Process, acme: Workspace, scripted: Scripted
) -> None:
    scripted.script = [failed(ErrorClass.PROVIDER_ERROR)]
    attempts_run(message(placed(acme)))
    assert until(lambda: Job.objects.filter(state="waiting").exists())


def test_a_cancel_ends_the_run_soon(process: Process, acme: Workspace) -> None:
    attempt = placed(acme, seconds=60)[0]
    thread = threading.Thread(target=attempts_run, args=(message([attempt]),))
    thread.start()
    assert until(lambda: Attempt.objects.filter(state="running").exists())
    job_cancel(job_id=attempt.job_id, now=timezone.now(), **WHO)
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert until(lambda: Job.objects.filter(state="canceled").exists())


def test_a_shutdown_waits_for_what_runs(process: Process, acme: Workspace) -> None:
    attempt = placed(acme, seconds=0.5)[0]
    thread = threading.Thread(target=attempts_run, args=(message([attempt]),))
    thread.start()
    assert until(lambda: bool(process.cancels))
    execute._leave_when_idle()
    assert Job.objects.get().state == "done"
    thread.join(timeout=5)


def test_a_probe_stores_the_health_of_every_executor_that_is_on(
    acme: Workspace, scripted: Scripted
) -> None:
    control.executors_probe()
    assert Executor.objects.get().health == "degraded"
    Executor.objects.update(enabled=False, health="down")
    control.executors_probe()
    assert Executor.objects.get().health == "down"


def test_an_executor_that_only_callers_use_is_not_asked_for_its_health(
    acme: Workspace, scripted: Scripted
) -> None:
    Executor.objects.update(job_kinds=["call"])
    control.executors_probe()
    assert Executor.objects.get().health == "ok"


def test_admission_is_renewed_for_what_is_due(acme: Workspace) -> None:
    submit(acme, not_before=timezone.now() + timedelta(hours=1))
    control.admission_renew()
    assert Job.objects.get().state == "deferred"
    Job.objects.update(wake_at=timezone.now())
    control.admission_renew()
    assert Job.objects.get().state == "queued"

"""Control work, sent by the leading governor on its clock: probes, admission anew, sweeps.

These tasks wait on the network or write in bulk, which the governor itself never does. Webhooks
ride on the probes' beat: a task of their own is sent when some are due.
"""

import logging
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta

from celery import shared_task
from django.conf import settings
from django.db import close_old_connections

from billing.services.deliveries import deliveries_due, deliveries_forget, deliveries_send
from scheduling.executors.contract import ExecutorSpec
from scheduling.executors.registry import EXECUTORS, SHARED
from scheduling.kinds.contract import RunsBy
from scheduling.kinds.registry import runs_by
from scheduling.models import Executor
from scheduling.services.cancel import orphans_stop
from scheduling.services.expiry import jobs_expire
from scheduling.services.health import executor_health_set
from scheduling.services.idempotency import answers_forget
from scheduling.services.readmission import jobs_readmit, reservations_sweep
from scheduling.services.trials import GIVEN_UP, trial_fail, trial_take

log = logging.getLogger(__name__)

ANSWERS_KEPT = timedelta(hours=24)
"""How long an Idempotency-Key is remembered."""
DELIVERIES_KEPT = timedelta(days=30)
"""How long it is told what became of a webhook's delivery."""
TRIAL_MOST_S = GIVEN_UP.total_seconds() - 20
TRIAL_BROKEN = "Its run ended with a fault, which the control worker's log has; ask again."


@shared_task(name="scheduling.executors_probe", ignore_result=True)
def executors_probe() -> None:
    """Ask every enabled executor for its health and store what changed.

    One on which nothing of ours runs is left alone: its callers alone know how to reach it.
    """
    try:
        for row in Executor.objects.filter(enabled=True, kind__in=EXECUTORS):
            if all(runs_by(kind) is not RunsBy.WORKERS for kind in row.job_kinds):
                continue
            executor = SHARED.get(probe_spec(row))
            executor_health_set(executor_id=row.id, health=executor.health())
        if deliveries_due(datetime.now(UTC)):
            webhooks_send.apply_async(expires=30)
    finally:
        close_old_connections()


@shared_task(name="scheduling.webhooks_send", ignore_result=True)
def webhooks_send() -> None:
    """Send the alerts that are due to their endpoints, set after set."""
    try:
        while deliveries_send(now=datetime.now(UTC)):
            pass
    finally:
        close_old_connections()


@shared_task(name="scheduling.admission_renew", ignore_result=True)
def admission_renew() -> None:
    """Send jobs with expired reservations back to admission, cancel what nobody waits for, then
    admit what is due."""
    try:
        now = datetime.now(UTC)
        reservations_sweep(now=now)
        orphans_stop(now=now)
        _readmit(now)
    finally:
        close_old_connections()


@shared_task(name="scheduling.jobs_readmit", ignore_result=True)
def jobs_readmit_due() -> None:
    """Admit the deferred jobs that are due."""
    try:
        _readmit(datetime.now(UTC))
    finally:
        close_old_connections()


def _readmit(now: datetime) -> None:
    readmitted = jobs_readmit(now=now)
    if readmitted:
        log.info("%d deferred jobs were decided anew", readmitted)


@shared_task(name="scheduling.jobs_expire", ignore_result=True)
def jobs_expire_due() -> None:
    """End what waits past its time to live or its deadline, set after set."""
    try:
        while jobs_expire(now=datetime.now(UTC)):
            pass
    finally:
        close_old_connections()


@shared_task(name="scheduling.trials_run", ignore_result=True)
def trials_run() -> None:
    """Run the trials of policies that were asked for, one after another."""
    try:
        while (trial := trial_take(datetime.now(UTC))) is not None:
            if not _ran(trial):
                trial_fail(trial, sentence=TRIAL_BROKEN, now=datetime.now(UTC))
    finally:
        close_old_connections()


def _ran(trial: uuid.UUID) -> bool:
    """Run a trial in a process of its own; tells whether it came to its end."""
    argv = [sys.executable, str(settings.BASE_DIR / "manage.py"), "policy_trial", str(trial)]
    try:
        done = subprocess.run(argv, check=False, timeout=TRIAL_MOST_S)  # noqa: S603 (own program)
    except subprocess.TimeoutExpired:
        log.warning("trial %s took more than %d s and was ended", trial, TRIAL_MOST_S)
        return False
    return done.returncode == 0


@shared_task(name="scheduling.housekeeping", ignore_result=True)
def housekeeping() -> None:
    """Forget remembered answers and ended deliveries that nobody will ask for again."""
    try:
        deliveries_forget(before=datetime.now(UTC) - DELIVERIES_KEPT)
        answers_forget(before=datetime.now(UTC) - ANSWERS_KEPT)
    finally:
        close_old_connections()


def probe_spec(row: Executor) -> ExecutorSpec:
    """Return the plain values from which the row's executor is built."""
    return ExecutorSpec(
        name=row.slug,
        kind=row.kind,
        slots=row.slots,
        endpoint=row.endpoint or None,
        api_key=settings.MODEL_API_KEYS.get(row.slug),
        models=frozenset(row.models_offered),
    )

"""Jobs that a flow submits, while others cancel or end them: each on a connection of its own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from scheduling.controls.jobs import jobs_cancel
from scheduling.models import Job
from scheduling.services.cancel import job_cancel
from scheduling.services.children import Ask, Purse, Submitted, children_submit
from scheduling.tasks.claim import Claimed
from tenants.models import Workspace
from tests.locks import wait_until_waited_for
from tests.scheduling.factories import WHO, done, running, settle
from tests.scheduling.tasks.rounds.play import (
    Script,
    ask_for,
    begun,
    child,
    flow,
    flow_payload,
    ran,
    round_of,
    says,
)

pytestmark = pytest.mark.django_db(transaction=True)


def submits(claimed: Claimed, *asks: Ask) -> list[Submitted]:
    return children_submit(
        parent_id=claimed.job_id,
        fence=claimed.fence,
        asks=asks,
        purse=Purse(),
        now=timezone.now(),
    )


def beside(deed: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        try:
            deed()
        finally:
            connection.close()

    return run


def cancels_one(job: Job) -> None:
    job_cancel(job_id=job.id, now=timezone.now(), **WHO)


def cancels_many(job: Job) -> None:
    jobs_cancel(job_ids=[job.id], now=timezone.now(), **WHO)


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("cancels", [cancels_one, cancels_many])
def test_a_cancel_takes_with_it_what_is_being_submitted(
    acme: Workspace, worker: int, cancels: Callable[[Job], None], deep: bool
) -> None:
    submitter = job = flow(acme)
    if deep:
        round_of(job, worker, Script(says("", ask_for(kind="flow", payload=flow_payload()))))
        submitter = child()
    claimed = begun(submitter, worker)
    ask = Ask(key="0.new", kind="simulated", payload={"seconds": 0, "tokens": {"output": 7}})
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            Job.objects.select_for_update().get(id=submitter.id)
            (made,) = submits(claimed, ask)
            canceling = threads.submit(beside(lambda: cancels(job)))
            wait_until_waited_for()
        canceling.result(timeout=20)
    assert Job.objects.get(id=made.job).state == "canceled"
    submitter.refresh_from_db()
    assert (submitter.state, submitter.cancel_requested) == ("running", True)


def test_a_job_may_end_while_it_is_dropped(acme: Workspace, worker: int) -> None:
    """Its settlement has the job and wants the parent's row, which waits for this very job."""
    job = flow(acme)
    lost = begun(job, worker)
    ran(lost, Script(says("", ask_for())))
    settle([lost], None)
    kid = child()
    attempt, again = running(kid, worker), begun(job, worker)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            Job.objects.select_for_update().get(id=kid.id)
            dropping = threads.submit(beside(lambda: submits(again)))
            wait_until_waited_for()
            settle([attempt], done())
        dropping.result(timeout=20)
    kid.refresh_from_db()
    assert (kid.state, kid.parent_call) == ("done", f"~{kid.id}")


def test_an_attempt_that_is_superseded_while_it_waits_drops_nothing(
    acme: Workspace, worker: int
) -> None:
    job = flow(acme)
    lost = begun(job, worker)
    ran(lost, Script(says("", ask_for())))
    settle([lost], None)
    kid, again = child(), begun(job, worker)
    found: list[Any] = []

    def drops() -> None:
        try:
            submits(again)
        except Exception as fault:  # noqa: BLE001 (told by the test)
            found.append(type(fault).__name__)

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            Job.objects.select_for_update().get(id=kid.id)
            dropping = threads.submit(beside(drops))
            wait_until_waited_for()
            settle([again], None)
        dropping.result(timeout=20)
    kid.refresh_from_db()
    assert (found, kid.state) == (["Superseded"], "queued")

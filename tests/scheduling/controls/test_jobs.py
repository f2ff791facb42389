"""Levers on jobs: what each changes, for whom it is not, and what the audit and the story say."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.controls.jobs import (
    JobChange,
    jobs_cancel,
    jobs_pause,
    jobs_prioritise,
    jobs_requeue,
    jobs_resume,
)
from scheduling.models import Job, JobEvent
from scheduling.services.readmission import jobs_readmit
from tenants.controls import ControlRefused, control_number
from tenants.ids import new_id
from tenants.models import AuditEntry, Workspace
from tests.scheduling.factories import (
    LONG_AGO,
    WHO,
    make_budget,
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_tenant,
    place,
    submit,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme(db: None) -> Workspace:
    make_policy()
    make_price(output="1")
    pool = make_pool()
    make_executor(pool)
    return make_tenant("acme", pool)


def ids(jobs: list[Job]) -> list[Any]:
    return [job.id for job in jobs]


def ended(workspace: Workspace, state: str = "failed", **more: Any) -> Job:
    """Return a job that has ended, with traces of its run."""
    job = submit(workspace)[0]
    fields: dict[str, Any] = {
        "state": state, "finished_at": timezone.now(), "changed": LONG_AGO, "tries": 3, "fence": 3,
        "error": {"class": "x", "message": "y"}, "result": {"partial_text": "z"},
    }  # fmt: skip
    Job.objects.filter(id=job.id).update(**(fields | more))
    return Job.objects.get(id=job.id)


def only(changes: list[JobChange]) -> JobChange:
    (change,) = changes
    return change


def audit(change: JobChange) -> AuditEntry:
    assert change.number is not None
    return AuditEntry.objects.get(number=change.number)


def test_a_job_is_prioritised_and_keeps_its_age(acme: Workspace) -> None:
    job = submit(acme)[0]
    Job.objects.update(changed=LONG_AGO)
    change = only(jobs_prioritise(job_ids=[job.id], job_class="expedite", **WHO))
    moved = Job.objects.get()
    assert (moved.job_class, moved.submitted_at, moved.changed != LONG_AGO) == (
        "expedite", job.submitted_at, True,
    )  # fmt: skip
    entry = audit(change)
    assert (entry.action, entry.actor, entry.reason) == ("job_prioritise", "root", "test")
    assert (entry.before, entry.after) == ({"class": "normal"}, {"class": "expedite"})
    assert (entry.tenant, entry.target_id) == (acme.tenant, str(job.id))
    told = JobEvent.objects.latest("id")
    assert (told.event, told.data["by"], told.data["control"]) == (
        "prioritised", "root", change.number,
    )  # fmt: skip


def test_an_unknown_class_is_refused_with_those_there_are(acme: Workspace) -> None:
    job = submit(acme)[0]
    with pytest.raises(ControlRefused, match="the policy has: incident, expedite") as refused:
        jobs_prioritise(job_ids=[job.id], job_class="now", **WHO)
    assert refused.value.field == "class"


def test_a_class_takes_no_more_of_a_workspace_than_its_quota(acme: Workspace) -> None:
    jobs = submit(acme, 4)
    make_policy(classes=[{"name": "expedite", "fifo": True, "quota": 2}, {"name": "normal"}])
    jobs_prioritise(job_ids=ids(jobs[:1]), job_class="expedite", **WHO)
    changes = jobs_prioritise(job_ids=ids(jobs), job_class="expedite", **WHO)
    assert [one.refused.code if one.refused else one.number for one in changes] == [
        None, control_number(), "class_quota_full", "class_quota_full",
    ]  # fmt: skip
    assert Job.objects.filter(job_class="expedite").count() == 2
    jobs_prioritise(job_ids=ids(jobs), job_class="expedite", above_quota=True, **WHO)
    assert Job.objects.filter(job_class="expedite").count() == 4


@pytest.mark.parametrize("state", ["queued", "deferred", "waiting"])
def test_a_waiting_job_is_paused_and_resumed(acme: Workspace, state: str) -> None:
    job = submit(acme)[0]
    Job.objects.update(state=state, changed=LONG_AGO)
    paused = only(jobs_pause(job_ids=[job.id], **WHO))
    job = Job.objects.get()
    assert (job.state, job.paused, job.changed != LONG_AGO) == (state, True, True)
    resumed = only(jobs_resume(job_ids=[job.id], **WHO))
    assert Job.objects.values_list("state", "paused").get() == (state, False)
    assert (audit(paused).before, audit(paused).after) == ({"paused": False}, {"paused": True})
    assert (audit(resumed).before, audit(resumed).after) == ({"paused": True}, {"paused": False})
    events = JobEvent.objects.filter(event__in=["paused", "resumed"]).order_by("id")
    assert list(events.values_list("event", "reason")) == [
        ("paused", "job_paused"),
        ("resumed", ""),
    ]


def test_pulling_a_lever_again_changes_and_records_nothing(acme: Workspace) -> None:
    job = submit(acme)[0]
    jobs_pause(job_ids=[job.id], **WHO)
    before = AuditEntry.objects.count(), JobEvent.objects.count(), control_number()
    again = only(jobs_pause(job_ids=[job.id], **WHO))
    assert (again.number, again.refused) == (None, None)
    assert (AuditEntry.objects.count(), JobEvent.objects.count(), control_number()) == before


@pytest.mark.parametrize("state", ["running", "done", "failed", "canceled"])
def test_what_does_not_wait_can_be_neither_paused_nor_moved(acme: Workspace, state: str) -> None:
    job = submit(acme)[0]
    over = None if state == "running" else timezone.now()
    Job.objects.update(state=state, fence=1, finished_at=over)
    for changes in (
        jobs_pause(job_ids=[job.id], **WHO),
        jobs_resume(job_ids=[job.id], **WHO),
        jobs_prioritise(job_ids=[job.id], job_class="batch", **WHO),
    ):
        refused = only(changes).refused
        assert refused is not None
        assert refused.code == ("job_running" if state == "running" else "job_ended")
    assert Job.objects.values_list("paused", "job_class").get() == (False, "normal")


@pytest.mark.parametrize("state", ["failed", "canceled", "expired"])
def test_an_ended_job_is_put_back_and_waits_anew(acme: Workspace, state: str) -> None:
    make_budget(acme, "10")
    job = ended(acme, state, cancel_requested=True, outcome="rejected")
    now = timezone.now()
    change = only(jobs_requeue(job_ids=[job.id], now=now, **WHO))
    back = Job.objects.get()
    assert (back.state, back.reason, back.submitted_at, back.wake_at, back.fence) == (
        "deferred", "requeued", now, now, 3,
    )  # fmt: skip
    assert (back.tries, back.error, back.result, back.finished_at, back.cancel_requested) == (
        0, None, None, None, False,
    )  # fmt: skip
    assert audit(change).before["state"] == state
    assert {"Its place: it waits anew from now on.", "The count of its 3 failed attempts."} <= set(
        change.step.lost
    )
    assert jobs_readmit(now=now) == 1
    assert Job.objects.values_list("state", "reason").get() == ("queued", "in_order")
    assert JobEvent.objects.filter(event="requeued").count() == 1


def test_a_deadline_that_has_passed_is_lost_and_one_to_come_is_kept(acme: Workspace) -> None:
    now = timezone.now()
    past = ended(acme, "expired", deadline=now - timedelta(hours=1))
    future = ended(acme, "failed", deadline=now + timedelta(hours=1))
    lost = {
        one.job_id: one.step.lost
        for one in jobs_requeue(job_ids=[past.id, future.id], now=now, **WHO)
    }
    assert "Its deadline, which has passed." in lost[past.id]
    assert "Its deadline, which has passed." not in lost[future.id]
    assert Job.objects.get(id=past.id).deadline is None
    assert Job.objects.get(id=future.id).deadline == future.deadline


def test_putting_back_what_is_not_idempotent_says_that_it_may_be_done_twice(
    acme: Workspace,
) -> None:
    job = ended(acme, "failed", idempotent=False)
    change = only(jobs_requeue(job_ids=[job.id], now=timezone.now(), **WHO))
    assert any("done twice" in one for one in change.step.lost)


@pytest.mark.parametrize(
    ("state", "code"),
    [("queued", "job_waits"), ("deferred", "job_waits"), ("running", "job_running"),
     ("done", "job_ended"), ("denied", "job_ended")],
)  # fmt: skip
def test_only_what_failed_was_canceled_or_expired_can_be_put_back(
    acme: Workspace, state: str, code: str
) -> None:
    job = submit(acme)[0]
    over = timezone.now() if state in ("done", "denied") else None
    Job.objects.update(state=state, fence=1, finished_at=over)
    refused = only(jobs_requeue(job_ids=[job.id], now=timezone.now(), **WHO)).refused
    assert refused is not None
    assert (refused.code, Job.objects.get().state) == (code, state)


def test_canceling_is_audited_with_what_it_did_to_each(acme: Workspace) -> None:
    waits, runs, over, before = submit(acme, 4)
    place(runs, state="running", started_at=timezone.now())
    Job.objects.filter(id=over.id).update(state="done", finished_at=timezone.now())
    Job.objects.filter(id=before.id).update(state="canceled", finished_at=timezone.now())
    done = jobs_cancel(job_ids=ids([before, over, runs, waits]), now=timezone.now(), **WHO)
    assert [one.job_id for one in done] == ids([waits, runs, over, before])
    assert [one.number is not None for one in done] == [True, True, False, False]
    assert audit(done[0]).after == {"state": "canceled", "cancel_requested": True}
    assert audit(done[1]).after == {"state": "running", "cancel_requested": True}
    assert done[2].refused is not None
    assert done[3].refused is None


def test_one_job_that_cannot_does_not_keep_the_others_back(acme: Workspace) -> None:
    first, second = submit(acme, 2)
    Job.objects.filter(id=first.id).update(state="running", fence=1)
    changes = jobs_pause(job_ids=ids([first, second]), **WHO)
    assert [one.refused is None for one in changes] == [False, True]
    assert Job.objects.get(id=second.id).paused


def test_a_job_that_is_not_there_leaves_all_as_they_were(acme: Workspace) -> None:
    job = submit(acme)[0]
    with pytest.raises(Job.DoesNotExist):
        jobs_pause(job_ids=[job.id, new_id()], **WHO)
    assert not Job.objects.get().paused


def test_a_lever_without_a_reason_changes_nothing(acme: Workspace) -> None:
    job = submit(acme)[0]
    with pytest.raises(ControlRefused):
        jobs_pause(job_ids=[job.id], acting_user="root", reason=" ")
    assert not Job.objects.get().paused

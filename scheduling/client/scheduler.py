"""The scheduler's contract for a Python process: submit, wait, events, acquire, release, cancel,
status.

`wait` is the contract's await, a word that Python keeps for itself. The same is there over HTTP
(`POST /jobs`, `GET /jobs/{id}?wait=`, `/events`, `/cancel`), but for `acquire`: a slot is held by a
process that can be seen to live, which needs the database.
"""

import atexit
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import close_old_connections, connection
from django.utils import timezone

from scheduling.client.errors import InTransaction, JobOver, NotAdmitted, SlotTimeout
from scheduling.client.nudges import Nudges
from scheduling.client.outcomes import given_up
from scheduling.client.slot import Slot, slot_of
from scheduling.core.states import JobState
from scheduling.executors.contract import Outcome
from scheduling.kinds.contract import RunsBy
from scheduling.kinds.registry import runs_by
from scheduling.models import Job, JobEvent
from scheduling.selectors.jobs import job_get
from scheduling.selectors.story import Standing, pauses, standing_of, story_since
from scheduling.services.cancel import JobEnded, job_cancel
from scheduling.services.drafts import Refused, Submission
from scheduling.services.rights import rights_of
from scheduling.services.settlement import Report
from scheduling.services.submission import jobs_submit
from scheduling.tasks.claim import attempts_claim
from scheduling.tasks.process import Process, leave, present
from tenants.models import Workspace
from tenants.rbac import Grant, Permission, Principal, require
from tenants.roles import ROLE_PERMISSIONS

atexit.register(leave)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A job that was submitted, and what admission said of it."""

    job: uuid.UUID
    verdict: str
    reason: str
    sentence: str
    place: int | None
    eta: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How far a job has come; `result` and `error` are those of its last attempt."""

    job: uuid.UUID
    state: JobState
    reason: str
    outcome: str
    result: Any
    error: Any

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it by itself."""
        return Standing(state=self.state, reason=self.reason).ended


class Scheduler:
    """The scheduler as somebody who submits to one workspace sees it."""

    def __init__(self, workspace: Workspace, *, principal: Principal) -> None:
        """Act in a workspace as a principal, with its rights there."""
        self._workspace = workspace
        self._principal = principal

    @classmethod
    def of(cls, tenant: str, workspace: str, *, name: str = "library") -> "Scheduler":
        """Return the scheduler for a workspace by its slugs, acting as a submitter of that name.

        Raises `Workspace.DoesNotExist`.
        """
        row = Workspace.objects.select_related("tenant").get(tenant__slug=tenant, slug=workspace)
        grant = Grant(
            tenant=row.tenant_id, workspace=row.id, permissions=ROLE_PERMISSIONS["submitter"]
        )
        return cls(row, principal=Principal(name=name, grants=frozenset({grant})))

    def submit(self, job: Submission) -> Handle:
        """Submit a job; raises `NotAdmitted` for one that is denied or has wrong fields."""
        (answer,) = jobs_submit(
            workspace=self._workspace,
            submitted_by=self._principal.name,
            submissions=[job],
            rights=rights_of(self._principal, self._workspace),
            now=timezone.now(),
        )
        if isinstance(answer, Refused):
            said = "; ".join(f"{one.field}: {one.sentence}" for one in answer.errors)
            raise NotAdmitted("invalid", said, errors=answer.errors)
        decision = answer.decision
        if answer.job.state == JobState.DENIED:
            raise NotAdmitted(decision.reason, decision.sentence)
        return Handle(
            job=answer.job.id,
            verdict=decision.verdict,
            reason=decision.reason,
            sentence=decision.sentence,
            place=decision.place,
            eta=decision.eta,
        )

    def status(self, job_id: uuid.UUID) -> Status:
        """Return how far a job has come; raises `Hidden` for one that is not there to be seen."""
        job = job_get(self._principal, job_id)
        return Status(
            job=job.id,
            state=JobState(job.state),
            reason=job.reason,
            outcome=job.outcome,
            result=job.result,
            error=job.error,
        )

    def wait(self, job_id: uuid.UUID, *, timeout_s: float | None = None) -> Status:
        """Return when the job has ended, or after `timeout_s` as it stands then."""
        self.status(job_id)
        end = _end(timeout_s)
        for pause_s in pauses():
            left_s = end - time.monotonic()
            if standing_of(job_id).ended or left_s <= 0:
                break
            time.sleep(min(pause_s, left_s))
        return self.status(job_id)

    def events(self, job_id: uuid.UUID, *, after: int = 0) -> Iterator[JobEvent]:
        """Yield what happens to a job, from behind the event numbered `after`, until it has ended."""
        self.status(job_id)
        for pause_s in pauses():
            story = story_since(job_id, after)
            yield from story.events
            if story.whole:
                return
            after = story.events[-1].pk if story.events else after
            time.sleep(pause_s)

    def cancel(self, job_id: uuid.UUID, *, reason: str = "") -> None:
        """Cancel a job; one that has ended stays as it is. Raises `Hidden` and `Forbidden`."""
        job = job_get(self._principal, job_id)
        require(
            self._principal,
            Permission.CANCEL,
            tenant=job.tenant_id,
            workspace=job.workspace_id,
        )
        self._cancel(job_id, reason)

    def acquire(
        self,
        job: Submission | uuid.UUID,
        *,
        timeout_s: float | None = None,
        cancel: bool = True,
        given_up: threading.Event | None = None,
    ) -> Slot:
        """Wait for a job's slot: submit it (a job of a kind that its caller runs), or name it.

        After `timeout_s`, or soon after `given_up` is set, raises `SlotTimeout`, having canceled the
        job or, with `cancel` False, left it waiting: acquire it again soon, for a placement that
        nobody takes is lost and ends it. Raises `NotAdmitted` and `JobOver`; `InTransaction` inside of one.
        """
        if connection.in_atomic_block:
            raise InTransaction
        job_id = job if isinstance(job, uuid.UUID) else self.submit(job).job
        self._check_callers(job_id)
        try:
            return self._take(job_id, timeout_s, cancel=cancel, given_up=given_up)
        except JobOver:
            raise
        except BaseException as error:
            if cancel or not isinstance(error, SlotTimeout):
                self._cancel(job_id, "no slot was waited for any longer")
            raise
        finally:
            close_old_connections()

    def release(self, slot: Slot, outcome: Outcome | None = None) -> None:
        """Give a slot back: what became of its call, None where none was made."""
        slot.release(outcome)

    def _check_callers(self, job_id: uuid.UUID) -> None:
        kind = job_get(self._principal, job_id).kind
        if runs_by(kind) is not RunsBy.CALLER:
            message = f"A job of kind {kind!r} is run by a worker; only callers' own have slots."
            raise ValueError(message)

    def _take(
        self,
        job_id: uuid.UUID,
        timeout_s: float | None,
        *,
        cancel: bool,
        given_up: threading.Event | None,
    ) -> Slot:
        end, process = _end(timeout_s), _process()
        with Nudges(str(job_id)) as nudges:
            for pause_s in pauses():
                standing = standing_of(job_id)
                if standing.placed is not None:
                    slot = _claim(process, *standing.placed)
                    if slot is not None:
                        return slot
                if standing.ended:
                    raise JobOver(job_id, standing.state, standing.reason)
                left_s = end - time.monotonic()
                if left_s <= 0 or (given_up is not None and given_up.is_set()):
                    raise SlotTimeout(job_id, timeout_s or 0.0, waits=not cancel)
                nudges.wait(min(pause_s, left_s))
        raise AssertionError  # the pauses never end

    def _cancel(self, job_id: uuid.UUID, reason: str) -> None:
        try:
            job_cancel(
                job_id=job_id,
                acting_user=self._principal.name,
                reason=reason,
                now=timezone.now(),
            )
        except (JobEnded, Job.DoesNotExist):
            return


def _claim(process: Process, attempt: uuid.UUID, fence: int) -> Slot | None:
    """Claim a placement for this process; None when it is gone, or somebody else's."""
    canceled = process.cancels[attempt] = threading.Event()
    try:
        claimed = attempts_claim(worker_id=process.worker_id, pairs=[(str(attempt), fence)])
        if claimed:
            return slot_of(claimed[0], canceled, process)
    except BaseException:
        # It may be ours all the same, and this process would beat for it as long as it lives.
        process.results.put(Report(attempt_id=attempt, fence=fence, outcome=given_up()))
        process.cancels.pop(attempt, None)
        raise
    process.cancels.pop(attempt, None)
    return None


def _process() -> Process:
    """Return this process as the scheduler knows it; one that is no worker has no threads for it."""
    return present(threads=0, queues=[])


def _end(timeout_s: float | None) -> float:
    return float("inf") if timeout_s is None else time.monotonic() + timeout_s

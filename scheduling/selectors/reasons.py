"""What each reason code says to a person: one sentence a code, shared by the API and the boards.

The sentences name no tenant, job or number, so any viewer may read any of them.
"""

from scheduling.core.types import Reason

REASON_SENTENCES: dict[Reason, str] = {
    Reason.STARTS_NOW: "It is funded and should start at once.",
    Reason.IN_ORDER: "It stands in the fair order and starts when its place comes up.",
    Reason.HEAD_WAITS_FOR_UNITS: "It is first in line and waits until enough units are free.",
    Reason.BEHIND_HEAD: "A job ahead of it waits for units, and nothing may pass that job.",
    Reason.TENANT_HELD: "An operator holds its tenant; it starts when the hold ends.",
    Reason.JOB_PAUSED: "It is paused; it starts after it is resumed.",
    Reason.OWN_LIMIT: "Its tenant, workspace or workflow runs as many jobs as it may at once.",
    Reason.SHARED_LIMIT: "A limit shared by several tenants is used up for the moment.",
    Reason.RATE_WINDOW: "The requests or tokens of the last minute leave no room for it yet.",
    Reason.NO_EXECUTOR: "No executor that it may use can run it at present.",
    Reason.EXECUTOR_BUSY: "All slots of the executors that can run it are taken.",
    Reason.NEVER_FITS: "It costs more units than its class can ever have in this pool.",
    Reason.NOT_BEFORE: "Its not-before time has not come yet.",
    Reason.DEPENDENCY: "It waits for a job that it depends on.",
    Reason.WAITING_ON_CHILD: "It waits for jobs that it has submitted itself, and holds no slot.",
    Reason.STEP_DONE: "A step of it is done; it stands in the order again for the next one.",
    Reason.RETRY_WAIT: "An attempt failed; it waits a moment before the next one.",
    Reason.RETRY_BUDGET: "An attempt failed and the provider's retry budget is used up for now.",
    Reason.FALLBACK: "Its model fails; one that may stand in for it is being looked for.",
    Reason.FELL_BACK: "Its model failed and another stands in for it.",
    Reason.CIRCUIT_OPEN: "The executors that can run it fail too often and are being rested.",
    Reason.BUDGET: "A budget has no room for its estimate.",
    Reason.UNPRICED_MODEL: "No price is published for the model that it asks for.",
    Reason.CLASS_QUOTA: "Its workspace has as many jobs of its class as it may.",
    Reason.SHED: "So many jobs wait that its class, which can wait, is refused first.",
    Reason.HARD_CEILING: "It is above a ceiling that it was submitted with, or has used it up.",
    Reason.BACKLOG_FULL: "Too many jobs wait already; try again later.",
    Reason.NOT_PERMITTED: "Its submitter may not run this kind of job in this workspace.",
    Reason.PLACED: "It has been placed on an executor.",
    Reason.BACKFILLED: "It was let past a blocked job, which it does not delay.",
    Reason.WORKER_LOST: "The worker that ran it was lost.",
    Reason.CALLER_LOST: "The process that was to make the call is gone, or never took its slot.",
    Reason.ATTEMPTS_EXHAUSTED: "It failed as often as it may.",
    Reason.EXECUTION_ERROR: "The work itself failed.",
    Reason.DEADLINE: "Its deadline has passed or cannot be met.",
    Reason.EXPIRED: "Its time to live was over before it could start.",
    Reason.CANCELED: "It was canceled.",
    Reason.FINISHED: "It finished.",
    Reason.REVIEW: "Its work is done and waits for a reviewer's verdict.",
    Reason.ACCEPTED: "A reviewer accepted its work.",
    Reason.REJECTED: "A reviewer rejected its work.",
    Reason.PREEMPTED: "It made room for other work; it goes on when its place comes up.",
    Reason.REQUEUED: "It had ended and was put back; it waits to be admitted anew.",
}


def reason_sentence(code: str) -> str:
    """Return the sentence of a reason code; the code itself where it is unknown to this version."""
    try:
        return REASON_SENTENCES[Reason(code)]
    except ValueError:
        return code

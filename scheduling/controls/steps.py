"""One job's part of a lever: from what to what, or why it cannot be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.core.states import WAITING_JOBS, JobState
from scheduling.models import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What changes (the same twice: nothing does), and in sentences what is lost by it."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    lost: tuple[str, ...] = ()


class JobRefused(Exception):
    """The job cannot take the lever as it stands; `code` is for programs."""

    def __init__(self, code: str, sentence: str) -> None:
        """Keep the code and the sentence, which says what to do instead."""
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


def must_wait(job: Job) -> None:
    """Pass for a job that waits; raise `JobRefused` for one that runs or has ended."""
    if job.state in WAITING_JOBS:
        return
    if job.state == JobState.RUNNING:
        sentence = "The job runs already; this is for jobs that wait. Cancel it, or let it end."
        raise JobRefused("job_running", sentence)
    sentence = f"The job is {job.state} already; this is for jobs that wait."
    raise JobRefused("job_ended", sentence)

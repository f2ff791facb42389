"""Rounds of a flow by hand: a scripted model, and one round from its claim to its settlement."""

import json
import threading
from collections.abc import Iterator
from typing import Any

from scheduling.executors.contract import Outcome, Status, Usage, Work
from scheduling.kinds.contract import ModelAnswer
from scheduling.kinds.flow import Flow
from scheduling.models import Job
from scheduling.services.submission import Accepted
from scheduling.tasks import execute
from scheduling.tasks.claim import Claimed
from tenants.models import Workspace
from tests.scheduling.factories import (
    asked as asked_for,
)
from tests.scheduling.factories import (
    claim,
    place,
    settle,
    submit_all,
)


def flow_payload(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Work it out."}]
    return {"flow": "agent", "messages": messages, "tools": ["calculator", "submit_job"], **more}


def flow(space: Workspace, *, payload: dict[str, Any] | None = None, **more: Any) -> Job:
    asked = {"kind": "flow", "payload": payload or flow_payload(), "submitted_by": "ann", **more}
    who = asked.pop("submitted_by")
    (answer,) = submit_all(space, [asked_for(**asked)], submitted_by=who)
    assert isinstance(answer, Accepted), answer
    job = answer.job
    assert job.state == "queued", job.reason
    return job


def call(name: str = "calculator", **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": "c1", "type": "function", "function": function}


def says(text: str = "", *calls: dict[str, Any], tokens: int = 10) -> Outcome:
    """Return what a model's executor answers a round with."""
    answer = ModelAnswer(text=text, tool_calls=calls, finish_reason="stop", model="small")
    usage = Usage(input_total=tokens, output_total=tokens, requests=1, tool_calls=len(calls))
    return Outcome(status=Status.COMPLETE, usage=usage, result=Flow().result(answer))


def begun(job: Job, worker: int) -> Claimed:
    """Place the job on the model's executor and claim it."""
    fresh = Job.objects.get(id=job.id)
    executor = fresh.pool.executors.get(slug="model")
    attempt = place(fresh, fence=fresh.fence + 1, executor=executor, step=fresh.step)
    (claimed,) = claim(worker, [attempt])
    return claimed


class Script:
    """A model that gives its answers in turn; `asked` are the works that it was given."""

    def __init__(self, *answers: Outcome) -> None:
        self._answers: Iterator[Outcome] = iter(answers)
        self.asked: list[Work] = []

    def __call__(self, work: Work) -> Outcome:
        self.asked.append(work)
        return next(self._answers)


def ran(claimed: Claimed, model: Script) -> Outcome:
    return execute._outcome(claimed, threading.Event(), model)


def round_of(job: Job, worker: int, model: Script) -> Job:
    """Run the job's next round to its settlement; returns the job as it then stands."""
    claimed = begun(job, worker)
    settle([claimed], ran(claimed, model))
    return Job.objects.get(id=job.id)


def ask_for(name: str = "submit_job", **more: Any) -> dict[str, Any]:
    payload = {"seconds": 0, "tokens": {"output": 7}}
    return call(name, **{"kind": "simulated", "payload": payload, **more})


def child() -> Job:
    return Job.objects.get(parent__isnull=False)

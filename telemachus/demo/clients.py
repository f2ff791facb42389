"""The demo's three tenants as real clients of the HTTP API, at work at the same time."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from telemachus.demo.scene import WORKFLOW, Actor, Scene
from telemachus.demo.sentences import text_of

BULK_ROWS = 60
TIMEOUT_S = 30.0


class SubmissionFailed(Exception):
    """The API did not take a submission; the message says what it answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What one tenant got back: its job ids in order, and the sentence of its first decision."""

    slug: str
    job_ids: tuple[str, ...]
    first: str


def submit_all(scene: Scene, base_url: str) -> list[Submitted]:
    """Let all tenants submit at once; raises `SubmissionFailed`."""
    with ThreadPoolExecutor(len(scene.actors)) as threads:
        futures = [threads.submit(_submit, actor, scene, base_url) for actor in scene.actors]
        return [future.result() for future in futures]


def submit_reviewed(scene: Scene, base_url: str) -> None:
    """Submit one job more, whose work is left to a reviewer; raises `SubmissionFailed`."""
    actor = scene.actors[-1]
    body = _body(actor, scene, actor.part.jobs) | {"review": True, "mission": None}
    headers = {"Authorization": f"Bearer {actor.key}"}
    with httpx.Client(base_url=base_url, headers=headers, timeout=TIMEOUT_S) as client:
        _taken(client.post("/api/v1/jobs", json=body), 201)


def _submit(actor: Actor, scene: Scene, base_url: str) -> Submitted:
    bodies = [_body(actor, scene, number) for number in range(actor.part.jobs)]
    headers = {"Authorization": f"Bearer {actor.key}"}
    with httpx.Client(base_url=base_url, headers=headers, timeout=TIMEOUT_S) as client:
        answers: list[dict[str, Any]] = []
        if len(bodies) < BULK_ROWS:
            for number, body in enumerate(bodies):
                key = {"Idempotency-Key": f"{scene.mission}-{number}"}
                answers.append(_taken(client.post("/api/v1/jobs", json=body, headers=key), 201))
        else:
            for start in range(0, len(bodies), BULK_ROWS):
                rows = {"jobs": bodies[start : start + BULK_ROWS]}
                key = {"Idempotency-Key": f"{scene.mission}-bulk-{start}"}
                answer = client.post("/api/v1/jobs/bulk", json=rows, headers=key)
                answers += _taken(answer, 200)["results"]
    first = answers[0].get("decision", answers[0]).get("sentence", "")
    return Submitted(
        slug=actor.part.slug, job_ids=tuple(answer["id"] for answer in answers), first=first
    )


def _body(actor: Actor, scene: Scene, number: int) -> dict[str, Any]:
    shift = {"aurora": 0, "borealis": 120, "cirrus": 144}[actor.part.slug]
    return {
        "workflow": WORKFLOW,
        "kind": "translate",
        "mission": scene.mission,
        "payload": {"text": text_of(shift + number), "source": "en", "target": "pt"},
    }


def _taken(answer: httpx.Response, status: int) -> dict[str, Any]:
    if answer.status_code != status:
        message = f"{answer.request.url.path} answered {answer.status_code}: {answer.text[:500]}"
        raise SubmissionFailed(message)
    body: dict[str, Any] = answer.json()
    return body

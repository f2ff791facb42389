"""Flows with real worker processes and a model server that plays a part: kills, and jobs of jobs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.invariants import violations
from tests.e2e.scripted_model import USAGE, ScriptedModel
from tests.e2e.system import System

ROUNDS = 50
KILLS = 2
MOST_IN_USE = """
SELECT coalesce(max(n), 0) FROM (
    SELECT (SELECT count(*) FROM scheduling_attempt b JOIN scheduling_job k ON k.id = b.job_id
        WHERE k.workspace_id = j.workspace_id AND b.dispatched_at <= a.dispatched_at
          AND (b.ended_at IS NULL OR b.ended_at > a.dispatched_at)) AS n
    FROM scheduling_attempt a JOIN scheduling_job j ON j.id = a.job_id
    JOIN tenants_workspace w ON w.id = j.workspace_id
    JOIN tenants_tenant t ON t.id = w.tenant_id WHERE t.slug = 'two'
) moments
"""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    one = ScriptedModel()
    yield one
    one.close()


def flow(part: dict[str, Any], **bounds: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": json.dumps(part)}]
    tools = ["calculator", "submit_job"]
    payload = {"flow": "agent", "messages": messages, "tools": tools, **bounds}
    return {"workflow": "work", "kind": "flow", "payload": payload}


def submit(system: System, tenant: str, body: dict[str, Any]) -> str:
    with system.client(tenant) as client:
        answer = client.post("/jobs", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def job(system: System, tenant: str, job_id: str) -> dict[str, Any]:
    with system.client(tenant) as client:
        found: dict[str, Any] = client.get(f"/jobs/{job_id}").json()
    return found


def steps(system: System, job_id: str) -> int:
    return int(system.sql("SELECT step FROM scheduling_job WHERE id = %s", job_id)[0][0])


def test_a_flow_goes_on_from_its_last_round_and_jobs_of_jobs_need_no_second_slot(
    system: System, model: ScriptedModel
):
    system.seed(budget=4, share_by="turns")
    system.run("tests.e2e.seed_flows", model.address)
    _fifty_rounds_with_kills(system, model)
    _parent_and_child_under_a_limit_of_one(system)
    _three_flows_deep_under_a_limit_of_one(system)
    system.wait("rest", lambda: violations(system) == {}, 10)
    assert violations(system) == {}


def _fifty_rounds_with_kills(system: System, model: ScriptedModel) -> None:
    job_id = submit(system, "one", flow({"name": "long", "rounds": ROUNDS - 1}, max_steps=ROUNDS))
    for number in range(KILLS):
        goal = 12 * (number + 1)
        system.wait(f"round {goal}", lambda goal=goal: steps(system, job_id) >= goal)
        system.kill("-n model-1@")
    system.wait("the end", lambda: job(system, "one", job_id)["state"] == "done", 90)
    ended = job(system, "one", job_id)
    assert ended["result"]["rounds"] == ROUNDS
    assert ended["step"] == ROUNDS - 1
    asked = [count for (name, _), count in model.asked.items() if name == "long"]
    assert len(asked) == ROUNDS
    assert sum(asked) <= ROUNDS + KILLS
    finished = [one for one in ended["attempts"] if one["state"] == "complete"]
    assert [one["step"] for one in finished] == list(range(ROUNDS))
    booked = system.sql(
        "SELECT meter, sum(quantity)::int FROM billing_ledgerentry WHERE job_id = %s "
        "AND kind = 'incurred' AND meter IN ('input', 'output') GROUP BY meter ORDER BY meter",
        job_id,
    )
    assert booked == [
        ("input", ROUNDS * USAGE["prompt_tokens"]),
        ("output", ROUNDS * USAGE["completion_tokens"]),
    ]


def _parent_and_child_under_a_limit_of_one(system: System) -> None:
    """Case C40: the parent gives its slot up, or its child could never run."""
    payload = {"kind": "simulated", "payload": {"seconds": 1.5}}
    parent = submit(system, "two", flow({"name": "parent", "job": payload}))
    system.wait("the wait", lambda: job(system, "two", parent)["reason"] == "waiting_on_child")
    with system.client("two") as client:
        told = client.get(f"/jobs/{parent}/explain").json()
    assert told["reason"] == "waiting_on_child"
    waiting = job(system, "two", parent)
    assert (waiting["state"], waiting["children"]) == ("waiting", 1)
    system.wait("the end", lambda: job(system, "two", parent)["state"] == "done")
    assert system.sql(MOST_IN_USE) == [(1,)]


def _three_flows_deep_under_a_limit_of_one(system: System) -> None:
    part: dict[str, Any] = {"name": "depth 3"}
    for depth in (2, 1, 0):
        inner = flow(part)
        part = {
            "name": f"depth {depth}",
            "job": {"kind": "flow", "payload": inner["payload"]},
        }
    top = submit(system, "two", flow(part))
    system.wait("the end of all four", lambda: job(system, "two", top)["state"] == "done")
    depths = system.sql("SELECT depth, state FROM scheduling_job WHERE depth > 0 ORDER BY depth")
    assert depths == [(1, "done"), (1, "done"), (2, "done"), (3, "done")]
    assert system.sql(MOST_IN_USE) == [(1,)]

"""Eight parallel submissions of 0.90 against a limit of 10 with 7 spent: three get in, each time.

Over HTTP against a running server, as case C01 has it; BUDGET_RACES says how many times.
"""

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.e2e.system import System

RACES = int(os.environ.get("BUDGET_RACES", "50"))
CLIENTS = 8
SUMS = (
    "SELECT b.spent, b.held FROM billing_balance b JOIN billing_budget g ON g.id = b.budget_id "
    "JOIN scheduling_workflow w ON w.id::text = g.scope_id WHERE w.slug = %s"
)


def race(clients: list[httpx.Client], threads: ThreadPoolExecutor, slug: str) -> Counter[str]:
    """Submit once from each client at one barrier; count the answers."""
    barrier = threading.Barrier(CLIENTS)
    body = {
        "workflow": slug,
        "kind": "simulated",
        "payload": {"seconds": 0, "tokens": {"input": 0, "output": 900_000}},
        "paused": True,
    }

    def submit(client: httpx.Client) -> str:
        barrier.wait(30)
        answer = client.post("/jobs", json=body)
        assert answer.status_code == 201, answer.text
        decision = answer.json()["decision"]
        if decision["reason"] == "budget":
            assert decision["sentence"].startswith("The spend budget of workflow has ")
            return "refused"
        return "admitted" if decision["reservation_id"] else "unfunded"

    return Counter(threads.map(submit, clients))


def test_exactly_three_of_eight_get_in_every_time(system: System):
    system.seed(budget=4, share_by="cost")
    system.run("tests.e2e.seed_budgets", str(RACES))
    clients = [system.client("one") for _ in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as threads:
        for number in range(RACES):
            slug = f"race-{number}"
            assert race(clients, threads, slug) == {"admitted": 3, "refused": 5}, slug
            ((spent, held),) = system.sql(SUMS, slug)
            assert (f"{spent:.2f}", f"{held:.2f}") == ("7.00", "2.70"), slug
    for client in clients:
        client.close()
    assert "all balances agree" in system.manage("budgets_check")

"""The work of a chaos run: jobs of all kinds, a model server that misbehaves, and reviewers."""

import contextlib
import json
import random
import threading
from typing import Any

import httpx

from tests.e2e.system import System
from tests.scripted_model import (
    EMPTY,
    ERROR_IN_200,
    HALF,
    HANG,
    LIMIT_IN_200,
    OK,
    RESET,
    Answer,
    ModelServer,
    failing,
    in_turn,
    refused,
    storm,
)

TROUBLES: dict[str, tuple[Answer, ...]] = {
    "a 429 storm": (),
    "errors in a 200": (ERROR_IN_200, LIMIT_IN_200, EMPTY, ERROR_IN_200, OK),
    "half streams": (HALF, HALF, HALF, OK),
    "resets": (RESET, RESET, OK),
    "a hang": (HANG, OK),
    "503": (failing(), failing(), refused("0.5"), OK),
}


def jobs(dice: random.Random, count: int, mean_s: float) -> list[dict[str, Any]]:
    """Return the rows of a run: half of them simulated, the others chats, flows and reviewed work."""
    return [_job(dice, number, mean_s) for number in range(count)]


def _job(dice: random.Random, number: int, mean_s: float) -> dict[str, Any]:
    kind = dice.choices(("plain", "urgent", "chat", "flow", "reviewed"), (50, 8, 22, 12, 8))[0]
    row: dict[str, Any] = {
        "workflow": "work",
        "kind": "simulated",
        "payload": {"seconds": round(dice.uniform(0.1, 1.7) * mean_s, 2)},
        "idempotent": dice.random() < 0.8,
        "max_attempts": 100,
    }
    if kind == "urgent":
        row |= {"class": "urgent", "payload": {"seconds": 0.2}}
    if kind == "reviewed":
        row |= {"review": True}
    if kind in ("chat", "flow"):
        told = json.dumps({"name": f"flow {number}", "rounds": dice.randrange(2, 8)})
        messages = [{"role": "user", "content": told}]
        row |= {"kind": kind, "idempotent": True, "payload": {"messages": messages}}
    if kind == "chat":
        row |= {"model": "m"}
    if kind == "flow":
        row["payload"] |= {"flow": "agent", "tools": ["calculator"]}
    return row


def trouble(server: ModelServer, dice: random.Random, *, hangs: bool) -> str:
    """Make the model's server misbehave in a way, until the next one; return which.

    `hangs`: a call may hang, and then holds its slot for a minute.
    """
    name = dice.choice(sorted(TROUBLES if hangs else TROUBLES.keys() - {"a hang"}))
    answers = TROUBLES[name]
    server.behave(in_turn(*answers) if answers else storm(dice.uniform(1, 8), "1"), model="m")
    return name


class Reviewers:
    """A thread that judges whatever waits for review, now and then letting a review lie."""

    def __init__(self, system: System, keys: dict[str, str], dice: random.Random) -> None:
        self._system, self._keys, self._dice = system, keys, dice
        self._over = threading.Event()
        self.verdicts = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._over.wait(0.5):
            for key in self._keys.values():
                with contextlib.suppress(httpx.TransportError):  # the web is coming back
                    self._judge(key)

    def _judge(self, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        base = f"{self._system.url}/api/v1"
        with httpx.Client(base_url=base, headers=headers, timeout=10) as client:
            waiting = client.get("/reviews")
            if waiting.status_code != 200:
                return
            for row in waiting.json()["results"]:
                end = self._dice.choice(("accept", "accept", "reject"))
                told = client.post(f"/reviews/{row['id']}/{end}", json={"note": "seen"})
                self.verdicts += told.status_code == 200

"""A model server that misbehaves by script: storms, errors in a 200, halves, hangs, resets.

It listens on loopback and speaks enough of the OpenAI API for executors that call a model server. How it behaves is said per model, and may be changed at any time, by the clock
or by the number of calls. Every chat call is noted with its time and what became of it; health
probes (`GET /v1/models`) are answered and not counted.

    server = ModelServer("small", "large")
    server.behave(storm(60, retry_after="5"), model="small")
    ... an executor with the endpoint server.url ...
    assert server.count("small") < 30
    server.close()

As a program it serves until it is ended, and then prints its calls as JSON, one a line:

    python -m tests.scripted_model PORT MODEL...
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from tests.scheduling.executors.scripted import (
    OK_STREAM,
    STREAM_HEAD,
    ScriptedServer,
    Step,
    Talk,
    body,
    delta,
    hang,
    hang_up,
    reset,
    sse,
)

Steps = tuple[Step, ...]
ANY = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One way to answer a call: its name, and the raw steps."""

    name: str
    steps: Steps


@dataclass(frozen=True, slots=True)
class Call:
    """One chat call: when (seconds on the server's clock), for which model, how it was answered."""

    at: float
    model: str
    answer: str


Behaviour = Callable[[float, int], Answer]
"""From the seconds since it was set and the number of the call since then (from 0) to an answer."""


OK = Answer("ok", OK_STREAM)
HALF = Answer("half", (STREAM_HEAD, sse(delta("o")), hang_up))
RESET = Answer("reset", (STREAM_HEAD, sse(delta("o")), reset))
HANG = Answer("hang", (STREAM_HEAD, hang))
SILENT = Answer("silent", (hang,))
EMPTY = Answer("empty", (body(""),))
ERROR_IN_200 = Answer("error_in_200", (body({"error": "overloaded"}),))
LIMIT_IN_200 = Answer(
    "limit_in_200",
    (body({"code": "rate_limit_daily", "message": "daily quota reached", "choices": None}),),
)


def refused(retry_after: str = "", status: str = "429 Too Many Requests") -> Answer:
    """Refuse a call with a status; `retry_after` is the header's raw value, "" leaves it out."""
    headers = {"Retry_After": retry_after} if retry_after else {}
    fault = {"error": {"message": "refused by the script", "code": int(status[:3])}}
    return Answer(status[:3], (body(fault, status, **headers),))


def failing(status: str = "503 Service Unavailable") -> Answer:
    """Fail a call with a status."""
    return refused(status=status)


def always(answer: Answer) -> Behaviour:
    """Answer every call alike."""
    return lambda _since, _number: answer


def storm(seconds: float, retry_after: str = "", then: Answer = OK) -> Behaviour:
    """Refuse all calls for so many seconds, and answer well from then on."""
    limited = refused(retry_after)
    return lambda since, _number: limited if since < seconds else then


def in_turn(*answers: Answer) -> Behaviour:
    """Answer call by call; the last answer goes on."""
    return lambda _since, number: answers[min(number, len(answers) - 1)]


class ModelServer(ScriptedServer):
    """Answers chat calls by the behaviour of their model; well, where none was set."""

    def __init__(self, *models: str, port: int = 0) -> None:
        super().__init__(port=port)
        self.models = models
        self.calls: list[Call] = []
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._set: dict[str, tuple[Behaviour, float]] = {}
        self._numbers: dict[str, int] = {}

    @property
    def url(self) -> str:
        """The endpoint for an executor."""
        return f"{self.address}/v1"

    def behave(self, how: Behaviour | Answer, model: str = ANY) -> None:
        """Behave so from now on, for one model or for all that have no behaviour of their own."""
        behaviour = always(how) if isinstance(how, Answer) else how
        with self._lock:
            self._set[model] = (behaviour, self._clock())
            self._numbers[model] = 0

    def count(self, model: str = ANY, *, since: float = 0.0, answer: str = "") -> int:
        """Count the calls for a model (or all), from a time on, answered so (or in any way)."""
        with self._lock:
            return sum(
                one.at >= since and model in (ANY, one.model) and answer in ("", one.answer)
                for one in self.calls
            )

    def _clock(self) -> float:
        return time.monotonic() - self._began

    def _steps(self, talk: Talk) -> Steps:
        if talk.method == "GET":
            return (body({"data": [{"id": model} for model in self.models]}),)
        model = talk.body["model"]
        with self._lock:
            answer = self._answer(model)
            self.talks.append(talk)
            self.calls.append(Call(self._clock(), model, answer.name))
        return answer.steps

    def _answer(self, model: str) -> Answer:
        key = model if model in self._set else ANY
        if key not in self._set:
            return OK
        behaviour, began = self._set[key]
        number = self._numbers[key]
        self._numbers[key] = number + 1
        return behaviour(self._clock() - began, number)


def main(port: int, *models: str) -> None:
    """Serve until standard input ends."""
    server = ModelServer(*models, port=port)
    sys.stdin.read()
    for call in server.calls:
        sys.stdout.write(json.dumps(asdict(call)) + "\n")
    server.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

"""Fixtures of the executor tests: a scripted server, an executor, and work for it."""

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scheduling.executors.contract import ExecutorSpec, Outcome, Work
from scheduling.executors.local_model import LocalModel
from scheduling.kinds.contract import Estimate
from tests.scheduling.executors.scripted import ScriptedServer

_NUMBERS = itertools.count(1)


def make_work(**changes: Any) -> Work:
    values: dict[str, Any] = {
        "attempt_id": f"attempt-{next(_NUMBERS)}",
        "fence": 1,
        "job_id": "job",
        "kind": "chat",
        "payload": {"messages": [{"role": "user", "content": "hello"}]},
        "model": "m",
        "estimate": Estimate(input_tokens=40, output_tokens=100),
        "max_runtime_s": 20.0,
    }
    return Work(**(values | changes))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()
    yield scripted
    scripted.close()


@pytest.fixture
def executor(server: ScriptedServer) -> Iterator[LocalModel]:
    local = LocalModel(ExecutorSpec(name="x", kind="local-model", endpoint=server.address))
    yield local
    local.close()


@pytest.fixture
def run(executor: LocalModel) -> Callable[..., Outcome]:
    def dispatch(**changes: Any) -> Outcome:
        return executor.dispatch(make_work(**changes), threading.Event())

    return dispatch

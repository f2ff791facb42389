"""The scripted model server itself: chaos tests trust what it did and what it counted."""

import socket
from collections.abc import Callable, Iterator
from decimal import Decimal
from threading import Event
from urllib.parse import urlsplit

import pytest

from scheduling.executors.contract import ErrorClass, ExecutorSpec, Outcome, Work
from scheduling.executors.local_model import LocalModel
from scheduling.kinds.contract import Estimate
from tests.scripted_model import (
    EMPTY,
    ERROR_IN_200,
    HALF,
    HANG,
    LIMIT_IN_200,
    OK,
    RESET,
    ModelServer,
    failing,
    in_turn,
    refused,
    storm,
)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    one = ModelServer("small", "large")
    yield one
    one.close()


@pytest.fixture
def ask(server: ModelServer) -> Iterator[Callable[..., Outcome]]:
    spec = ExecutorSpec(name="m", kind="local-model", endpoint=server.address, slots=2)
    executor = LocalModel(spec)

    def call(model: str = "small") -> Outcome:
        work = Work(
            attempt_id="a", fence=1, job_id="j", kind="chat", model=model,
            payload={"messages": [{"role": "user", "content": "hi"}]},
            estimate=Estimate(input_tokens=3, output_tokens=5),
            first_token_timeout_s=0.3, idle_timeout_s=0.3,
        )  # fmt: skip
        return executor.dispatch(work, Event())

    yield call
    executor.close()


def test_a_model_without_a_behaviour_answers_well(server, ask):
    outcome = ask()
    assert (outcome.error_class, outcome.usage.output_total) == (None, 2)
    assert outcome.usage.worker_seconds >= Decimal(0)
    assert (server.count("small"), server.count("large"), server.count()) == (1, 0, 1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused("7"), ErrorClass.RATE_LIMITED),
        (LIMIT_IN_200, ErrorClass.RATE_LIMITED),
        (failing(), ErrorClass.PROVIDER_ERROR),
        (failing("401 Unauthorized"), ErrorClass.UNAUTHORIZED),
        (ERROR_IN_200, ErrorClass.PROVIDER_ERROR),
        (EMPTY, ErrorClass.INVALID_RESPONSE),
        (HALF, ErrorClass.INTERRUPTED),
        (RESET, ErrorClass.INTERRUPTED),
        (HANG, ErrorClass.TIMEOUT),
    ],
    ids=lambda one: one.name if hasattr(one, "name") else "",
)
def test_each_misbehaviour_is_the_fault_that_it_stands_for(server, ask, answer, error):
    server.behave(answer, model="small")
    assert ask().error_class is error
    assert server.count("small", answer=answer.name) == 1
    assert ask("large").error_class is None


def test_a_storm_refuses_by_the_clock_and_a_list_by_the_call(server, ask):
    server.behave(storm(60, retry_after="2.5"), model="small")
    outcome = ask()
    assert (outcome.error_class, outcome.retry_after_s) == (ErrorClass.RATE_LIMITED, 2.5)
    server.behave(storm(0), model="small")
    assert ask().error_class is None
    server.behave(in_turn(failing(), OK))
    assert [ask("large").error_class for _ in range(3)] == [ErrorClass.PROVIDER_ERROR, None, None]


@pytest.mark.parametrize("missing", [1, 18, 40, 80], ids=["a byte", "body", "headers", "line"])
def test_a_client_that_was_killed_in_its_request_has_sent_none(server, ask, missing):
    """Killed workers do this; a thread that raised would fail whatever test runs just then."""
    request = b'POST /v1 HTTP/1.1\r\nhost: here.example.com\r\ncontent-length: 18\r\n\r\n{"model": "small"}'
    url = urlsplit(server.address)
    with socket.create_connection((url.hostname, url.port), timeout=5) as client:
        client.sendall(request[:-missing])
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""  # it hangs up
    assert ask().error_class is None
    assert server.count() == 1

"""What goes over the wire: kept connections, no hidden retries (C32), waits asked for (C30), slots (C36)."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduling.executors.contract import ErrorClass, ExecutorSpec, Health, Status
from scheduling.executors.local_model import LocalModel
from scheduling.executors.retry_after import MAX_RETRY_AFTER_S, retry_after_s
from tests.scheduling.executors.conftest import make_work
from tests.scheduling.executors.scripted import (
    KEEP,
    OK_KEPT,
    OK_STREAM,
    STREAM_HEAD,
    body,
    delta,
    hang,
    hang_up,
    reset,
    sse,
)

NOW = datetime(2026, 10, 21, 7, 27, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 30.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 30.0),
        ("0.5", 0.5),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("Wed, 21 Oct 2026 07:00:00 GMT", 0.0),
        ("Wed, 21 Oct 2026 07:28:00 -0000", 30.0),
        ("Wed, 21 Oct 9999 07:28:00 GMT", MAX_RETRY_AFTER_S),
        ("1e12", MAX_RETRY_AFTER_S),
        ("9" * 500, None),
        ("-5", None),
        ("NaN", None),
        ("inf", None),
        ("soon", None),
        ("Wed, 99 Foo 2026", None),
        ("", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date_and_made_safe(value, seconds):
    assert retry_after_s({"retry-after": value}, NOW) == seconds


def test_retry_after_in_thousandths_goes_first():
    assert retry_after_s({"retry-after-ms": "1500", "retry-after": "9"}, NOW) == 1.5


@pytest.mark.parametrize("value", ["30", "Wed, 21 Oct 2026 07:28:00 GMT", None])
def test_a_429_tells_when_to_come_back(server, value):
    local = LocalModel(
        ExecutorSpec(name="x", kind="local-model", endpoint=server.address), now=lambda: NOW
    )
    headers = {} if value is None else {"Retry_After": value}
    server.answer(body({"error": {"message": "slow down"}}, "429 Too Many Requests", **headers))
    outcome = local.dispatch(make_work(), threading.Event())
    local.close()
    assert outcome.error_class is ErrorClass.RATE_LIMITED
    if value is None:
        assert outcome.retry_after_s is None
    else:
        again = NOW + timedelta(seconds=outcome.retry_after_s or 0)
        assert again == datetime(2026, 10, 21, 7, 28, tzinfo=UTC)


def test_a_wrapped_limit_keeps_its_retry_after(server, run):
    server.answer(body({"code": "rate_limit", "message": "x", "choices": None}, Retry_After="4"))
    assert run().retry_after_s == 4.0


def test_four_dispatches_are_exactly_four_requests(server, run):
    refusal = body({"error": "no"}, "429 Too Many Requests", Connection="keep-alive")
    server.answer(refusal, KEEP)
    outcomes = [run() for _ in range(4)]
    assert len(server.talks) == 4
    assert {outcome.error_class for outcome in outcomes} == {ErrorClass.RATE_LIMITED}
    assert [outcome.usage.requests for outcome in outcomes] == [1] * 4


def test_connections_are_kept_between_calls(server, run):
    server.answer(*OK_KEPT)
    assert [run().status for _ in range(5)] == [Status.COMPLETE] * 5
    assert len(server.talks) == 5
    assert server.connections == 1


def test_a_kept_connection_that_the_server_closed_is_not_used_again(server, run):
    server.answer(*OK_KEPT[:2])  # complete, then closed without a word
    server.answer(*OK_KEPT)
    first = run()
    server.closing.wait(0.05)
    assert (first.status, run().status) == (Status.COMPLETE, Status.COMPLETE)


@pytest.mark.parametrize("how", [reset, hang_up], ids=["reset", "end"])
def test_a_kept_connection_that_ends_under_a_request_was_never_heard(server, run, how):
    server.answer(*OK_KEPT)
    server.answer(how)
    outcomes = [run(), run()]
    assert outcomes[1].error_class is ErrorClass.UNREACHABLE
    assert outcomes[1].usage.input_total == 0
    assert server.connections == 1
    assert run().error_class is ErrorClass.INTERRUPTED  # on a new connection it was heard


def test_many_threads_share_one_executor(server, executor):
    server.answer(*OK_KEPT)
    outcomes = []
    threads = [
        threading.Thread(
            target=lambda: outcomes.append(executor.dispatch(make_work(), threading.Event()))
        )
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [outcome.status for outcome in outcomes] == [Status.COMPLETE] * 20
    assert executor.capacity().in_use == 0


def test_pieces_are_handed_on_as_they_arrive(server, executor):
    seen: list[str] = []
    server.answer(STREAM_HEAD, sse(delta("a"), delta("b"), delta(None, "stop"), "[DONE]"))
    executor.dispatch(make_work(), threading.Event(), on_text=seen.append)
    assert seen == ["a", "b"]


def break_off(_text):
    raise SystemExit


@pytest.mark.slow
def test_a_hundred_ends_of_every_sort_leave_nothing_behind(server, executor):
    """C36: client gone, upstream silent, refused before dispatch, parser fault, worker exit."""
    gone = threading.Event()
    rounds: list[Any] = [
        (
            (STREAM_HEAD, sse(delta("a"), delta("b"), delta("c")), hang),
            {},
            lambda _text: gone.set(),
        ),
        ((hang,), {"first_token_timeout_s": 0.02}, None),
        (None, {"kind": "poetry"}, None),
        ((STREAM_HEAD, sse({"choices": [{"delta": {"tool_calls": [7]}}]})), {}, None),
        ((STREAM_HEAD, sse(delta("a")), hang), {}, break_off),
    ]
    for number in range(100):
        script, changes, on_text = rounds[number % len(rounds)]
        gone.clear()
        if script is not None:
            server.answer(*script)
        server.answer(*OK_STREAM)
        try:
            executor.dispatch(make_work(**changes), gone, on_text=on_text)
        except SystemExit:
            assert on_text is break_off
        assert executor.running() == frozenset()
        assert executor.capacity().in_use == 0
        normal = executor.dispatch(make_work(), threading.Event())
        assert normal.status is Status.COMPLETE
    assert not executor._client._transport._pool.connections


@pytest.mark.parametrize(
    ("answer", "health"),
    [
        (body({"object": "list", "data": [{"id": "m"}]}), Health.OK),
        (body({"object": "list", "data": [{"id": "other"}]}), Health.DEGRADED),
        (body({"error": "no"}, "404 Not Found"), Health.DEGRADED),
        (body({"error": "no"}, "429 Too Many Requests"), Health.DEGRADED),
        (body({"error": "no"}, "401 Unauthorized"), Health.DOWN),
        (body({"error": "no"}, "500 Oops"), Health.DOWN),
        (body("<html>"), Health.DOWN),
        (b"gibberish\r\n\r\n", Health.DOWN),
    ],
    ids=["lists it", "lists another", "no list", "busy", "bad key", "broken", "html", "no http"],
)
def test_health_is_read_off_the_list_of_models(server, answer, health):
    spec = ExecutorSpec(
        name="x", kind="local-model", endpoint=server.address, models=frozenset({"m"})
    )
    local = LocalModel(spec)
    server.answer(answer)
    probe = local.probe()
    local.close()
    assert probe.health is health
    assert server.talks[0].path == "/v1/models"
    assert bool(probe.message) is (health is not Health.OK)


@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:1", "nonsense"])
def test_an_executor_without_a_server_is_down(endpoint):
    local = LocalModel(ExecutorSpec(name="x", kind="local-model", endpoint=endpoint))
    assert local.health() is Health.DOWN
    local.close()

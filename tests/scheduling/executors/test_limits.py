"""Cancel and the limits of a call: first token, silence, whole run (C27), on an injected clock."""

import threading
import time

import pytest

from scheduling.executors.contract import Cancel, ErrorClass, ExecutorSpec, Source, Status
from scheduling.executors.local_model import LocalModel
from tests.scheduling.executors.conftest import make_work
from tests.scheduling.executors.scripted import STREAM_HEAD, delta, hang, sse


class Clock:
    """A clock that a script moves; it counts how often it was read."""

    def __init__(self):
        self.now = 0.0
        self.reads = 0

    def __call__(self):
        self.reads += 1
        return self.now

    def pass_seconds(self, seconds, data):
        """A script step: let time pass, send the data, and wait until the client has taken it."""

        def step(talk):
            self.now += seconds
            talk.connection.sendall(data)
            seen, ends = self.reads, time.monotonic() + 5
            while self.reads < seen + 4 and time.monotonic() < ends:
                if talk.server.closing.wait(0.005):
                    return

        return step


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def clocked(server, clock):
    spec = ExecutorSpec(name="x", kind="local-model", endpoint=server.address)
    local = LocalModel(spec, clock=clock)
    yield local
    local.close()


def two_minutes_of_comments(server, clock):
    comments = [clock.pass_seconds(10, b": keepalive\n\n") for _ in range(12)]
    server.answer(STREAM_HEAD, *comments, sse(delta("ok", "stop"), "[DONE]"))


@pytest.mark.slow
def test_comments_hold_off_the_idle_limit(server, clock, clocked):
    two_minutes_of_comments(server, clock)
    work = make_work(idle_timeout_s=15, first_token_timeout_s=None, max_runtime_s=None)
    outcome = clocked.dispatch(work, threading.Event())
    assert outcome.status is Status.COMPLETE
    assert outcome.result["text"] == "ok"
    assert clock.now == 120


def test_comments_do_not_hold_off_the_first_token_limit(server, clock, clocked):
    two_minutes_of_comments(server, clock)
    work = make_work(idle_timeout_s=15, first_token_timeout_s=60, max_runtime_s=None)
    outcome = clocked.dispatch(work, threading.Event())
    assert outcome.error_class is ErrorClass.TIMEOUT
    assert outcome.retryable
    assert "no first token within 60 s" in outcome.message
    assert outcome.usage.worker_seconds == 60
    assert outcome.usage.input_source is Source.ESTIMATED


def test_silence_in_the_middle_is_a_timeout_that_keeps_the_text(server, clock, clocked):
    half = clock.pass_seconds(0, sse(delta("half")))
    server.answer(STREAM_HEAD, half, clock.pass_seconds(16, b""), hang)
    outcome = clocked.dispatch(make_work(idle_timeout_s=15), threading.Event())
    assert outcome.error_class is ErrorClass.TIMEOUT
    assert "silent for 15 s" in outcome.message
    assert outcome.partial_text == "half"


def test_a_server_that_thinks_before_its_headers_is_not_idle(server, clock, clocked):
    def think(talk):
        clock.now += 50

    server.answer(think, STREAM_HEAD, sse(delta("ok", "stop"), "[DONE]"))
    outcome = clocked.dispatch(make_work(idle_timeout_s=5, max_runtime_s=None), threading.Event())
    assert outcome.status is Status.COMPLETE


def test_no_headers_at_all_meet_the_first_token_limit(server, run):
    server.answer(hang)
    outcome = run(first_token_timeout_s=0.2)
    assert outcome.error_class is ErrorClass.TIMEOUT
    assert outcome.usage.input_total == 40


def test_a_stream_of_tokens_still_meets_the_whole_run_limit(server, clock, clocked):
    tokens = [clock.pass_seconds(10, sse(delta("x"))) for _ in range(9)]
    server.answer(STREAM_HEAD, *tokens, hang)
    outcome = clocked.dispatch(make_work(max_runtime_s=45), threading.Event())
    assert outcome.error_class is ErrorClass.MAX_RUNTIME
    assert not outcome.retryable
    assert outcome.partial_text.startswith("xxx")
    assert outcome.usage.partial


@pytest.mark.parametrize(
    "script",
    [(hang,), (STREAM_HEAD, hang), (STREAM_HEAD, sse(delta("a")), hang)],
    ids=["before the headers", "before a token", "in the middle"],
)
def test_a_cancel_ends_a_silent_call_soon(server, executor, script):
    server.answer(*script)
    work, outcomes = make_work(), []
    thread = threading.Thread(
        target=lambda: outcomes.append(executor.dispatch(work, threading.Event()))
    )
    thread.start()
    wait_for(lambda: server.talks)
    assert executor.cancel(work.attempt_id) is Cancel.STOPPING
    thread.join(2)
    assert outcomes[0].status is Status.CANCELED
    assert outcomes[0].error_class is ErrorClass.CANCELED
    assert not outcomes[0].retryable
    assert executor.running() == frozenset()
    assert executor.cancel(work.attempt_id) is Cancel.UNKNOWN


def test_canceled_before_it_began_sends_nothing(server, executor):
    event = threading.Event()
    event.set()
    outcome = executor.dispatch(make_work(), event)
    assert outcome.status is Status.CANCELED
    assert server.connections == 0
    assert outcome.usage.requests == outcome.usage.input_total == 0


def wait_for(condition, seconds=5):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.005)

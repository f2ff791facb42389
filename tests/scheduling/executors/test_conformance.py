"""One suite that every kind of executor passes: what `contract.Executor` promises."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from scheduling.executors.contract import (
    AlreadyRunning,
    Cancel,
    ErrorClass,
    Executor,
    ExecutorSpec,
    Health,
    Status,
)
from scheduling.executors.registry import EXECUTORS, build_executor
from tests.scheduling.executors.conftest import make_work
from tests.scheduling.executors.scripted import OK_STREAM, STREAM_HEAD, body, delta, hang, sse


@dataclass
class Case:
    """An executor with work of its kind for each way to end."""

    executor: Executor
    quick: dict[str, Any]
    failing: dict[str, Any]
    endless: dict[str, Any]
    before: Callable[[str], None]  # set the stage for "quick", "failing" or "endless"

    def run(self, way, event=None, **changes):
        self.before(way)
        work = make_work(**(getattr(self, way) | changes))
        return self.executor.dispatch(work, event or threading.Event())


def local_model_case(server):
    scripts = {
        "quick": OK_STREAM,
        "failing": (body({"error": {"message": "broken"}}, "500 Oops"),),
        "endless": (STREAM_HEAD, sse(delta("first")), hang),
    }
    server.answer(body({"data": [{"id": "m"}]}))  # for the health check below
    spec = ExecutorSpec(name="x", kind="local-model", slots=3, endpoint=server.address)
    executor = build_executor(spec)
    assert executor.health() is Health.OK
    return Case(executor, {}, {}, {}, lambda way: server.answer(*scripts[way]))


def simulated_case(_server):
    executor = build_executor(ExecutorSpec(name="x", kind="simulated", slots=3))
    payloads = [{"seconds": 0}, {"seconds": 0.01, "fail": "provider_error"}, {"seconds": 60}]
    quick, failing, endless = ({"kind": "simulated", "payload": payload} for payload in payloads)
    return Case(executor, quick, failing, endless, lambda _way: None)


CASES = {"local-model": local_model_case, "simulated": simulated_case}


@pytest.fixture(params=sorted(EXECUTORS))
def case(request, server):
    made = CASES[request.param](server)
    yield made
    assert made.executor.running() == frozenset()
    assert made.executor.capacity().in_use == 0
    made.executor.close()


def test_work_that_was_stopped_goes_on_from_its_checkpoint_where_the_kind_promises_it(case):
    if not case.executor.traits.checkpoints:
        pytest.skip("this kind keeps no checkpoints")
    event = threading.Event()
    threading.Timer(0.2, event.set).start()
    stopped = case.run("endless", event)
    assert stopped.status is Status.CANCELED
    assert stopped.next is not None
    again = threading.Event()
    again.set()
    further = case.run("endless", again, checkpoint=stopped.next.checkpoint)
    assert further.next.checkpoint != {}
    assert case.run("quick").next is None


@pytest.fixture
def begun(case):
    """An endless run in a thread, seen to run; and the list that gets its outcome."""
    case.before("endless")
    work, event, outcomes = make_work(**case.endless), threading.Event(), []
    thread = threading.Thread(target=lambda: outcomes.append(case.executor.dispatch(work, event)))
    thread.start()
    ends = time.monotonic() + 5
    while work.attempt_id not in case.executor.running() and time.monotonic() < ends:
        time.sleep(0.005)
    yield work, event, outcomes, thread
    event.set()
    thread.join(5)


def test_it_tells_its_kind_and_what_may_be_done_to_its_work(case):
    assert case.executor.kind in EXECUTORS
    assert case.executor.traits.cancellable
    assert case.executor.capabilities().job_kinds
    assert case.executor.capacity().limit == 3
    assert case.executor.health() in Health


def test_complete_work_has_a_result_and_no_error(case):
    outcome = case.run("quick")
    assert outcome.status is Status.COMPLETE
    assert outcome.result
    assert outcome.error_class is None
    assert not outcome.retryable
    assert outcome.usage.worker_seconds >= 0


def test_a_failure_is_an_outcome_with_class_and_sentence(case):
    outcome = case.run("failing")
    assert outcome.status is Status.ERROR
    assert outcome.error_class is ErrorClass.PROVIDER_ERROR
    assert outcome.retryable
    assert outcome.message
    assert outcome.result is None


@pytest.mark.parametrize("by", ["event", "cancel"])
def test_running_work_can_be_canceled(case, begun, by):
    work, event, outcomes, thread = begun
    assert case.executor.capacity().in_use == 1
    if by == "event":
        event.set()
    else:
        assert case.executor.cancel(work.attempt_id) is Cancel.STOPPING
    thread.join(5)
    assert outcomes[0].status is Status.CANCELED
    assert outcomes[0].error_class is ErrorClass.CANCELED
    assert case.executor.running() == frozenset()


def test_work_canceled_before_it_begins_is_canceled(case):
    event = threading.Event()
    event.set()
    assert case.run("endless", event).status is Status.CANCELED


def test_the_whole_run_limit_ends_work(case):
    outcome = case.run("endless", max_runtime_s=0.15)
    assert outcome.error_class is ErrorClass.MAX_RUNTIME
    assert outcome.status is Status.ERROR
    assert not outcome.retryable
    assert 0.15 <= outcome.usage.worker_seconds < 5


def test_work_that_does_not_run_here_is_unknown(case):
    assert case.executor.cancel("nobody") is Cancel.UNKNOWN


def test_the_same_attempt_cannot_run_twice_at_once(case, begun):
    work, _, outcomes, _ = begun
    with pytest.raises(AlreadyRunning):
        case.executor.dispatch(work, threading.Event())
    assert case.executor.running() == {work.attempt_id}
    assert outcomes == []


def test_nothing_is_left_after_a_base_exception(case):
    class Exiting(threading.Event):
        asked = 0

        def is_set(self):
            self.asked += 1
            if self.asked > 3:  # by then a request is on its way
                raise SystemExit
            return False

        def wait(self, timeout=None):
            raise SystemExit

    with pytest.raises(SystemExit):
        case.run("endless", Exiting())
    assert case.executor.running() == frozenset()
    assert case.run("quick").status is Status.COMPLETE


def test_work_of_another_kind_is_refused(case):
    outcome = case.run("quick", kind="poetry")
    assert outcome.error_class is ErrorClass.INVALID_REQUEST
    assert outcome.message

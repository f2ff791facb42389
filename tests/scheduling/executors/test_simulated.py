"""The simulated executor: time, tokens and failures exactly as a payload names them."""

import threading
import time

import pytest

from scheduling.executors.contract import ErrorClass, ExecutorSpec, Source, Status
from scheduling.executors.simulated import Simulated
from scheduling.kinds.simulated import FAILURES
from tests.scheduling.executors.conftest import make_work


def run(**payload):
    executor = Simulated(ExecutorSpec(name="s", kind="simulated"))
    return executor.dispatch(make_work(kind="simulated", payload=payload), threading.Event())


def test_the_result_says_that_it_is_simulated():
    assert run(seconds=0).result == {"simulated": True, "seconds": 0.0}


def test_tokens_are_those_of_the_payload():
    usage = run(seconds=0, tokens={"input": 5, "output": 7}).usage
    assert (usage.input_total, usage.output_total) == (5, 7)
    assert usage.input_source is Source.REPORTED


@pytest.mark.parametrize("fail", sorted(FAILURES))
def test_every_failure_can_be_asked_for(fail):
    outcome = run(seconds=0, fail=fail, tokens={"input": 5})
    assert outcome.error_class is ErrorClass(fail)
    assert outcome.status is (Status.INTERRUPTED if fail == "interrupted" else Status.ERROR)
    assert outcome.message == f"simulated: {fail}"
    assert outcome.usage.input_total == 0


def test_only_what_the_scheduler_itself_decides_cannot_be_asked_for():
    decided = {ErrorClass.CANCELED, ErrorClass.MAX_RUNTIME}
    assert set(ErrorClass) - decided == {ErrorClass(name) for name in FAILURES}


def test_a_bad_payload_is_refused_by_field():
    outcome = run(seconds=-1)
    assert outcome.error_class is ErrorClass.INVALID_REQUEST
    assert "seconds" in outcome.message


def test_a_run_goes_on_from_the_seconds_that_are_done():
    executor = Simulated(ExecutorSpec(name="s", kind="simulated"))
    work = make_work(kind="simulated", payload={"seconds": 60}, checkpoint={"seconds_done": 60})
    began = time.monotonic()
    outcome = executor.dispatch(work, threading.Event())
    assert (outcome.status, outcome.next) == (Status.COMPLETE, None)
    assert time.monotonic() - began < 5


def test_a_stopped_run_leaves_all_the_seconds_that_were_done():
    times = iter([0.0, 7.0])
    executor = Simulated(ExecutorSpec(name="s", kind="simulated"), clock=lambda: next(times))
    event = threading.Event()
    event.set()
    work = make_work(kind="simulated", payload={"seconds": 60}, checkpoint={"seconds_done": 5})
    outcome = executor.dispatch(work, event)
    assert outcome.next.checkpoint == {"seconds_done": 12.0}
    assert outcome.usage.worker_seconds == 7

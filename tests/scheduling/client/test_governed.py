"""A governed client: the same answer as without, and a slot, a bill and an end for every call."""

import asyncio
import gc
import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import connections

from billing.reports import cost_of_job
from scheduling.client.errors import NotAdmitted, SlotTimeout
from scheduling.client.governed import _slot_of, governed, submission_of
from scheduling.client.outcomes import class_of, completed, told_usage
from scheduling.client.scheduler import Scheduler
from scheduling.client.slot import Slot, slot_now
from scheduling.client.streams import HeldStream
from scheduling.executors.contract import ErrorClass, Source
from scheduling.kinds.contract import Estimate
from scheduling.models import Attempt, Job
from scheduling.tasks.process import Process, leave
from tests.scheduling.factories import make_budget
from tests.scheduling.tasks.test_process import until

WHERE: dict[str, Any] = {"tenant": "acme", "workspace": "main", "workflow": "build"}
HELLO = [{"role": "user", "content": "hello there"}]


def answer(**usage: Any) -> SimpleNamespace:
    """An answer as a client library gives it: objects, not mappings."""
    details = SimpleNamespace(cached_tokens=10)
    told = SimpleNamespace(
        prompt_tokens=100, completion_tokens=50, prompt_tokens_details=details, **usage
    )
    return SimpleNamespace(usage=told, choices=["hi"])


def attempt() -> Attempt:
    return Attempt.objects.select_related("job").latest("id")


def test_the_answer_comes_back_and_its_usage_is_booked(
    scheduler: Scheduler, governor: None
) -> None:
    asked: list[Any] = []

    def client(*args: Any, **kwargs: Any) -> Any:
        asked.append((args, kwargs, slot_now()))
        return answer()

    complete = governed(client, **WHERE, name="ann", purpose="greet", timeout_s=10)
    assert complete("x", model="small", messages=HELLO).choices == ["hi"]
    (args, kwargs, slot), row = asked[0], attempt()
    assert (args, kwargs) == (("x",), {"model": "small", "messages": HELLO})
    assert (slot.executor, slot.attempt, slot_now()) == ("gpu", row.id, None)
    assert (row.state, row.job.state, row.job.submitted_by) == ("complete", "done", "ann")
    assert row.usage["input_total"] == 100
    assert row.usage["cached_read"] == 10
    assert row.usage["output_total"] == 50
    assert row.job.payload["purpose"] == "greet"
    assert cost_of_job(row.job_id).total > 0


@pytest.mark.parametrize(
    ("fault", "error_class"),
    [
        (ValueError("secret-key-123"), "internal"),
        (KeyboardInterrupt(), "canceled"),
        (SystemExit(), "canceled"),
        (TimeoutError(), "timeout"),
        (ConnectionRefusedError(), "unreachable"),
    ],
)
def test_whatever_the_client_raises_goes_on_and_the_slot_is_free(
    scheduler: Scheduler, governor: None, fault: BaseException, error_class: str
) -> None:
    def client(**_: Any) -> None:
        raise fault

    with pytest.raises(type(fault)):
        governed(client, **WHERE, timeout_s=10)(messages=HELLO)
    row = attempt()
    assert (row.job.state, row.job.reason) == ("failed", "execution_error")
    assert row.error_class == error_class
    assert "secret" not in str(row.message) + str(row.job.error)
    governed(lambda **_: answer(), **WHERE, timeout_s=10)(messages=HELLO)
    assert attempt().job.state == "done"


def test_calls_wait_for_their_slots_and_all_get_one(scheduler: Scheduler, governor: None) -> None:
    lock, now, most = threading.Lock(), [0], [0]

    def client(**_: Any) -> Any:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.1)
        with lock:
            now[0] -= 1
        return answer()

    complete = governed(client, **WHERE, timeout_s=30)

    def run() -> None:
        try:
            complete(messages=HELLO)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert Job.objects.filter(state="done").count() == 8
    assert most[0] == 2


def test_a_call_without_a_budget_is_not_made(scheduler: Scheduler, acme: Any) -> None:
    make_budget(acme, "0.0000001")
    made: list[int] = []
    complete = governed(lambda **_: made.append(1), **WHERE, timeout_s=0.3)
    with pytest.raises((NotAdmitted, SlotTimeout)):
        complete(messages=HELLO)
    assert made == []
    assert not Job.objects.filter(state__in=["queued", "running", "deferred"]).exists()


async def test_a_coroutine_function_is_governed_as_one(
    scheduler: Scheduler, governor: None
) -> None:
    async def client(**_: Any) -> Any:
        await asyncio.sleep(0)
        assert slot_now() is not None
        return answer()

    complete = governed(client, **WHERE, timeout_s=10)
    found = await asyncio.gather(*(complete(messages=HELLO) for _ in range(3)))
    assert [one.choices for one in found] == [["hi"]] * 3
    states = await asyncio.to_thread(lambda: closed(lambda: set(Job.objects.values_list("state"))))
    assert states == {("done",)}


async def test_a_canceled_coroutine_gives_its_slot_back(
    scheduler: Scheduler, governor: None
) -> None:
    began = asyncio.Event()

    async def client(**_: Any) -> None:
        began.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(governed(client, **WHERE, timeout_s=10)(messages=HELLO))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    row = await asyncio.to_thread(lambda: closed(attempt))
    assert (row.job.state, row.error_class) == ("failed", "canceled")


async def test_a_coroutine_that_is_canceled_while_it_waits_leaves_no_job_behind(
    scheduler: Scheduler,
) -> None:
    async def client(**_: Any) -> None:
        raise AssertionError

    task = asyncio.create_task(governed(client, **WHERE)(messages=HELLO))
    assert await seen(Job.objects.filter(state="queued").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await seen(Job.objects.filter(state="canceled").exists)


async def test_a_slot_that_comes_after_its_coroutine_was_canceled_is_given_back() -> None:
    waits, goes_on, slot = threading.Event(), threading.Event(), Mock(spec=Slot)

    def acquire(_given: Any, _given_up: Any) -> Slot:
        waits.set()
        goes_on.wait(10)
        return slot

    task = asyncio.create_task(_slot_of(acquire, {}))
    await asyncio.to_thread(waits.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    slot.release.assert_not_called()
    goes_on.set()
    assert await seen(lambda: slot.release.called)
    slot.release.assert_called_once_with()


async def seen(true: Any) -> bool:
    return await asyncio.to_thread(lambda: closed(lambda: until(true)))


def closed(act: Any) -> Any:
    try:
        return act()
    finally:
        connections.close_all()


def test_an_answer_that_tells_no_usage_costs_what_was_expected() -> None:
    expected = Estimate(input_tokens=7, output_tokens=9)
    for silent in (None, "text", {}, {"usage": None}, SimpleNamespace(usage="much")):
        usage = completed(silent, expected, elapsed_s=1.5).usage
        assert (usage.input_total, usage.output_total) == (7, 9)
        assert usage.output_source is Source.ESTIMATED
        assert str(usage.worker_seconds) == "1.5"


class Unreadable:
    """An answer, or a piece of one, whose usage cannot be read."""

    @property
    def usage(self) -> object:
        raise ValueError


def test_an_answer_whose_usage_cannot_be_read_gives_its_slot_back_and_costs_what_was_expected(
    scheduler: Scheduler, governor: None
) -> None:
    options: dict[str, Any] = {**WHERE, "timeout_s": 10, "input_tokens": 7, "output_tokens": 9}
    assert governed(lambda **_: Unreadable(), **options)() is not None
    stream = governed(lambda **_: iter([Unreadable(), "more"]), **options)()
    assert len(list(stream)) == 2
    assert live() == 0
    for row in Attempt.objects.select_related("job"):
        assert (row.job.state, row.usage["output_total"]) == ("done", 9)


def test_a_stream_that_is_collected_amid_the_hand_over_of_results_waits_for_nothing(
    scheduler: Scheduler, governor: None
) -> None:
    slot = scheduler.acquire(submission_of("build", {}, {}), timeout_s=10)
    process = slot._process

    def hand_over() -> None:
        with process.results.mutex:
            HeldStream(pieces(), slot)

    thread = threading.Thread(target=hand_over, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    assert until(lambda: live() == 0)
    assert until(lambda: process.held() == [])


def test_what_was_dropped_last_is_settled_before_the_process_leaves(
    scheduler: Scheduler, governor: None
) -> None:
    slot = scheduler.acquire(submission_of("build", {}, {}), timeout_s=10)
    slot._process.stopping.set()
    slot.abandon(None)
    leave()
    assert live() == 0


def test_a_usage_is_read_from_mappings_and_objects_alike() -> None:
    class Modelled:
        def __init__(self) -> None:
            self.prompt_tokens, self.completion_tokens = 3, 4

    for told in ({"usage": {"prompt_tokens": 3, "completion_tokens": 4}},
                 SimpleNamespace(usage=Modelled())):  # fmt: skip
        assert told_usage(told) == {"prompt_tokens": 3, "completion_tokens": 4}


@pytest.mark.parametrize(
    ("status", "error_class"),
    [(429, ErrorClass.RATE_LIMITED), (401, ErrorClass.UNAUTHORIZED), (503, ErrorClass.PROVIDER_ERROR),
     (400, ErrorClass.INVALID_REQUEST)],
)  # fmt: skip
def test_the_status_of_a_clients_error_says_its_class(status: int, error_class: ErrorClass) -> None:
    direct, wrapped = RuntimeError(), RuntimeError()
    direct.status_code = status  # type: ignore[attr-defined]
    wrapped.response = SimpleNamespace(status_code=status)  # type: ignore[attr-defined]
    assert class_of(direct) is class_of(wrapped) is error_class


def test_the_estimate_is_made_of_the_messages_and_the_limit(
    scheduler: Scheduler, governor: None
) -> None:
    complete = governed(lambda **_: answer(), **WHERE, timeout_s=10)
    complete(messages=[*HELLO, SimpleNamespace(role="assistant")], max_tokens=40)
    job = attempt().job
    assert job.output_tokens == 40
    assert job.input_tokens > 10
    governed(lambda **_: answer(), **WHERE, timeout_s=10, input_tokens=5, output_tokens=6)()
    job = attempt().job
    assert (job.input_tokens, job.output_tokens, job.model) == (5, 6, "")


def pieces(count: int = 3) -> Any:
    for number in range(count):
        yield {"text": str(number)}
    yield {"usage": {"prompt_tokens": 8, "completion_tokens": 9}}


def live() -> int:
    return Attempt.objects.filter(state__in=["dispatched", "running", "stopping"]).count()


def test_a_stream_holds_its_slot_to_the_last_piece_and_books_what_that_tells(
    scheduler: Scheduler, governor: None
) -> None:
    stream = governed(lambda **_: pieces(), **WHERE, timeout_s=10)(messages=HELLO)
    assert next(stream) == {"text": "0"}
    assert (attempt().state, live()) == ("running", 1)
    assert len(list(stream)) == 3
    row = attempt()
    assert (row.job.state, row.usage["input_total"], row.usage["output_total"]) == ("done", 8, 9)


def test_a_stream_that_is_closed_breaks_or_is_dropped_gives_its_slot_back(
    scheduler: Scheduler, governor: None
) -> None:
    complete = governed(lambda **_: pieces(), **WHERE, timeout_s=10, output_tokens=5)
    with complete(messages=HELLO) as stream:
        next(stream)
    row = attempt()
    assert (row.job.state, row.usage["output_total"]) == ("done", 5)

    def broken(**_: Any) -> Any:
        yield {"text": "0"}
        raise ConnectionResetError

    stream = governed(broken, **WHERE, timeout_s=10)(messages=HELLO)
    next(stream)
    with pytest.raises(ConnectionResetError):
        next(stream)
    assert attempt().error_class == "unreachable"
    complete(messages=HELLO)
    gc.collect()
    assert until(lambda: live() == 0)


async def test_a_stream_of_a_coroutine_function_holds_its_slot_too(
    scheduler: Scheduler, governor: None
) -> None:
    async def told() -> Any:
        for piece in pieces():
            yield piece

    async def client(**_: Any) -> Any:
        return told()

    complete = governed(client, **WHERE, timeout_s=10)
    stream = await complete(messages=HELLO)
    assert len([piece async for piece in stream]) == 4
    row = await asyncio.to_thread(lambda: closed(attempt))
    assert (row.job.state, row.usage["output_total"]) == ("done", 9)
    async with await complete(messages=HELLO) as other:
        assert await anext(other) == {"text": "0"}
    assert await asyncio.to_thread(lambda: closed(live)) == 0


def test_a_release_that_is_cut_short_is_settled_all_the_same(
    scheduler: Scheduler, governor: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(_self: Any, _reports: Any) -> None:
        raise KeyboardInterrupt

    def client(**_: Any) -> Any:
        monkeypatch.setattr(Process, "settle_now", cut)
        return answer()

    with pytest.raises(KeyboardInterrupt):
        governed(client, **WHERE, timeout_s=10)(messages=HELLO)
    monkeypatch.undo()
    assert until(lambda: live() == 0)

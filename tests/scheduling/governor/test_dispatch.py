"""The dispatch statement, what it refuses, and how messages are cut."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.utils import timezone

from scheduling.controls.pools import pool_dial
from scheduling.core.policy.cycle import cycle
from scheduling.governor import dispatch as module
from scheduling.governor.dispatch import LIST_MOST, Sent, dispatch, lists, remember, send
from scheduling.governor.loop import now_s
from scheduling.models import Attempt, Job, Pool, ServiceMemory
from scheduling.models.xact import CurrentXact
from scheduling.services.cancel import job_cancel
from tests.scheduling.factories import WHO, make_tenant, submit
from tests.scheduling.governor.desk import Desk


def decided(desk: Desk, pool: Pool) -> list[object]:
    """Take up what changed and decide, without storing it."""
    desk.leader._take_up()
    return list(cycle(desk.state(pool), now_s()))


def store(desk: Desk, pool: Pool, placements: list[object]) -> list[Sent]:
    return dispatch(
        desk.leader.book,
        placements,  # type: ignore[arg-type]
        pool=str(pool.id),
        epoch=desk.leader.epoch,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"state": "canceled", "finished_at": timezone.now(), "changed": CurrentXact()},
        {"paused": True, "changed": CurrentXact()},
        {"changed": CurrentXact()},
        {"state": "deferred", "changed": CurrentXact()},
    ],
)
def test_a_job_that_changed_after_the_decision_is_not_placed(
    desk: Desk, pool: Pool, change: dict[str, object]
) -> None:
    acme = make_tenant("acme", pool, cost=2)
    kept, other = submit(acme, 2)
    placements = decided(desk, pool)
    Job.objects.filter(id=other.id).update(**change)
    sent = store(desk, pool, placements)
    attempt = Attempt.objects.get()
    assert [one.attempt for one in sent] == [str(attempt.id)]
    assert attempt.job_id == kept.id
    state = desk.state(pool)
    assert list(state.live) == [str(kept.id)]
    assert sum(live.cost for live in state.live.values()) == 2
    assert state.order.memory(("normal", str(acme.tenant_id), None)).turn == 2


def test_a_refused_job_that_still_waits_is_placed_by_the_next_turn(desk: Desk, pool: Pool) -> None:
    job = submit(make_tenant("acme", pool))[0]
    placements = decided(desk, pool)
    Job.objects.filter(id=job.id).update(changed=CurrentXact())
    assert store(desk, pool, placements) == []
    assert desk.turn() == [str(job.id)]


def test_a_canceled_job_is_forgotten_by_the_next_turn(desk: Desk, pool: Pool) -> None:
    job = submit(make_tenant("acme", pool))[0]
    placements = decided(desk, pool)
    job_cancel(job_id=job.id, now=timezone.now(), **WHO)
    store(desk, pool, placements)
    assert desk.turn() == []
    assert desk.leader.book.rows == {}


def test_the_memory_is_stored_with_the_batch_and_only_when_it_changed(
    desk: Desk, pool: Pool
) -> None:
    acme = make_tenant("acme", pool, cost=3)
    submit(acme, 2)
    desk.turn()
    stored = ServiceMemory.objects.get(tenant=acme.tenant_id, workspace=None)
    assert (stored.turn, stored.used) == (6, 0)
    assert stored.last_placed_at is not None
    ServiceMemory.objects.update(turn=99)
    remember(desk.leader.book, desk.leader.epoch)
    assert set(ServiceMemory.objects.values_list("turn", flat=True)) == {99}


@pytest.mark.django_db(transaction=True)
def test_a_job_that_somebody_holds_locked_does_not_stop_the_leader(desk: Desk, pool: Pool) -> None:
    pool_dial(pool_id=pool.id, budget=2, reserve=0, **WHO)
    acme = make_tenant("acme", pool)
    locked, free = submit(acme, 2)
    placements = decided(desk, pool)

    def at_desk() -> list[Sent]:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET statement_timeout = '1s'")
            return store(desk, pool, placements)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        Job.objects.select_for_update().get(id=locked.id)
        sent = threads.submit(at_desk).result(timeout=5)
        assert len(sent) == 1
    assert desk.turn() == [str(locked.id)]
    assert set(Attempt.objects.values_list("job_id", flat=True)) == {locked.id, free.id}


def sent(*seconds: float) -> list[Sent]:
    return [Sent(str(number), 1, "q", one) for number, one in enumerate(seconds)]


@pytest.mark.parametrize(
    ("seconds", "sizes"),
    [
        ((), []),
        ((60,), [1]),
        ((60, 60), [1, 1]),
        ((0.05,) * 8, [4, 4]),
        ((0.05,) * 20, [5, 5, 5, 5]),
        ((0.2, 0.2, 0.05, 0.05), [1, 2, 1]),
        ((60, 0.1, 0.1, 0.1), [1, 2, 1]),
        ((0.0,) * 200, [LIST_MOST] * 3 + [8]),
    ],
)
def test_messages_carry_a_quarter_second_of_work_or_one_attempt(
    seconds: tuple[float, ...], sizes: list[int]
) -> None:
    cut = lists(sent(*seconds))
    assert [len(one) for one in cut] == sizes
    assert [one for message in cut for one in message] == sent(*seconds)


class Task:
    """Stands in for the Celery task: keeps what it was asked to send."""

    name = "run"

    def __init__(self) -> None:
        self.app = self.amqp = self
        self.asked = 0
        self.messages: list[tuple[str, list[tuple[str, int]]]] = []

    def producer_or_acquire(self) -> "Task":
        self.asked += 1
        return self

    def __enter__(self) -> "Task":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def create_task_message(
        self, _id: str, _name: str, args: tuple[list[tuple[str, int]]], **_: object
    ) -> list[tuple[str, int]]:
        return args[0]

    def send_task_message(
        self,
        _producer: "Task",
        _name: str,
        message: list[tuple[str, int]],
        *,
        queue: str,
        **_: object,
    ) -> None:
        self.messages.append((queue, message))


def test_each_queue_has_messages_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task()
    monkeypatch.setattr(module, "attempts_run", task)
    send([Sent("a", 1, "x", 9), Sent("b", 2, "y", 0.1), Sent("c", 3, "y", 0.1)])
    assert task.messages == [("x", [("a", 1)]), ("y", [("b", 2)]), ("y", [("c", 3)])]


def test_sending_nothing_asks_for_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task()
    monkeypatch.setattr(module, "attempts_run", task)
    send([])
    assert (task.asked, task.messages) == (0, [])
    send([Sent("a", 1, "x", 9), Sent("b", 2, "y", 9)])
    assert task.asked == 1

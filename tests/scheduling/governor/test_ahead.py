"""Short work goes to the workers ahead of their threads, by the seconds that a thread truly works."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from scheduling.governor.config import LIST_MOST, LISTS, ahead
from scheduling.governor.loop import GATHER_BUSY_S, GATHER_S
from scheduling.governor.messages import lists
from scheduling.models import Attempt, Pool, Worker
from tests.scheduling.factories import done, make_tenant, submit
from tests.scheduling.governor.desk import Desk


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """Two threads instead of the many that other tests have."""
    Worker.objects.update(threads=2, seen_at=timezone.now() + timedelta(hours=1))
    return desk


@pytest.fixture
def pool(pool: Pool) -> Pool:
    Pool.objects.update(budget=1000)
    pool.refresh_from_db()
    return pool


def learn(desk: Desk, seconds: str) -> None:
    """Let what runs end, with a thread having worked so many seconds; then read the settings."""
    desk.finish(done(worker_seconds=Decimal(seconds)))
    desk.leader._take_up()
    desk.leader._reconfigure()


@pytest.mark.parametrize(
    ("run_s", "attempts"),
    [(None, 1), (0.0, LISTS * LIST_MOST), (0.01, 50), (0.1, 5), (0.4, 1), (60.0, 1)],
)
def test_a_thread_has_at_most_two_short_lists(run_s: float | None, attempts: int) -> None:
    assert ahead(run_s) == attempts


def test_work_that_was_never_measured_takes_one_thread_each(desk: Desk, pool: Pool) -> None:
    submit(make_tenant("acme", pool), 10)
    assert len(desk.turn()) == 2
    assert desk.leader.gather_s() < GATHER_BUSY_S


def test_measured_short_work_is_dispatched_ahead_and_in_lists(desk: Desk, pool: Pool) -> None:
    submit(make_tenant("acme", pool), 100)
    desk.turn()
    learn(desk, "0.05")
    before = len(desk.sent)
    assert len(desk.turn()) == 2 * 10
    assert [len(one) for one in lists(desk.sent[before:])] == [5, 5, 5, 5]
    assert desk.leader.gather_s() == GATHER_BUSY_S


def test_time_spent_in_a_list_or_before_settling_does_not_count_as_work(
    desk: Desk, pool: Pool
) -> None:
    submit(make_tenant("acme", pool), 150)
    desk.turn()
    desk.claim()
    Attempt.objects.update(started_at=timezone.now() - timedelta(seconds=30))
    learn(desk, "0.01")
    assert len(desk.turn()) == 2 * 50


def test_changes_that_come_together_gather_their_neighbours_and_one_alone_does_not(
    desk: Desk, pool: Pool
) -> None:
    acme = make_tenant("acme", pool)
    submit(acme)
    assert desk.leader.turn()
    assert desk.leader.gather_s() == 0
    submit(acme, 2)
    assert desk.leader.turn()
    assert desk.leader.gather_s() == GATHER_S


def test_long_work_is_not_dispatched_ahead(desk: Desk, pool: Pool) -> None:
    submit(make_tenant("acme", pool), 10)
    desk.turn()
    learn(desk, "30")
    assert len(desk.turn()) == 2
    assert desk.leader.gather_s() < GATHER_BUSY_S


def test_changes_gather_longer_only_while_threads_have_plenty_before_them(
    desk: Desk, pool: Pool
) -> None:
    submit(make_tenant("acme", pool), 9)
    desk.turn()
    learn(desk, "0.001")
    assert len(desk.turn()) == 7
    assert desk.leader.gather_s() < GATHER_BUSY_S

"""The leader's turns as a whole: rows in, placements out, in the order that the rules name."""

from datetime import timedelta

import pytest
from django.utils import timezone
from kombu.exceptions import OperationalError

from scheduling.controls.pools import pool_dial
from scheduling.models import Attempt, Job, JobEvent, Pool
from scheduling.services.cancel import job_cancel
from tests.scheduling.factories import (
    WHO,
    make_executor,
    make_policy,
    make_pool,
    make_tenant,
    submit,
)
from tests.scheduling.governor.desk import Desk


def names(jobs: dict[str, Job], placed: list[str]) -> str:
    by_id = {str(job.id): name for name, job in jobs.items()}
    return " ".join(by_id[one] for one in placed)


def one_by_one(desk: Desk, rounds: int) -> list[str]:
    """Finish what runs and take a turn, so often; returns the jobs in the order of placement."""
    placed: list[str] = []
    for _ in range(rounds):
        desk.finish()
        placed += desk.turn()
    return placed


def test_the_seven_charts_are_placed_in_the_order_of_the_seed(desk: Desk, pool: Pool) -> None:
    make_policy(share_by="turns")
    pool_dial(pool_id=pool.id, budget=1, reserve=0, **WHO)
    first = make_tenant("zero", pool)
    spaces = {n: make_tenant(f"t{n}", pool, weight=w) for n, w in ((1, 2), (2, 1), (3, 1))}
    submit(first)
    assert len(desk.turn()) == 1
    arrivals = (("A", 1), ("B", 1), ("C", 2), ("D", 1), ("E", 2), ("F", 3), ("G", 1))
    charts = {name: submit(spaces[tenant])[0] for name, tenant in arrivals}
    assert desk.turn() == []
    assert names(charts, one_by_one(desk, 7)) == "A B C F D E G"
    turns = {one.job_id: one.turn or 0 for one in Attempt.objects.all()}
    assert turns[charts["A"].id] == turns[charts["B"].id] == turns[charts["F"].id]
    assert turns[charts["D"].id] == turns[charts["G"].id] == turns[charts["A"].id] + 1


def test_a_thousand_older_jobs_take_half_of_the_places_beside_a_hundred_newer(
    desk: Desk, pool: Pool
) -> None:
    make_policy(share_by="turns")
    old, new = make_tenant("old", pool), make_tenant("new", pool)
    submit(old, 10)
    assert len(desk.turn()) == pool.budget == 10
    submit(old, 1000)
    own = {str(job.id) for job in submit(new, 100)}
    placed = one_by_one(desk, 20)
    assert len(placed) == 200
    assert sum(one in own for one in placed) == 100


def test_a_job_that_does_not_fit_is_not_overtaken(desk: Desk, pool: Pool) -> None:
    pool_dial(pool_id=pool.id, budget=6, reserve=0, **WHO)
    jobs = {
        name: submit(make_tenant(name, pool, cost=cost))[0]
        for name, cost in zip("abcdef", (3, 3, 3, 3, 1, 1), strict=True)
    }
    state = desk.state(pool)
    assert names(jobs, desk.turn()) == "a b"
    desk.claim()
    assert desk.turn() == []
    assert sum(live.cost for live in state.live.values()) == 6
    for ended, started in (("a", "c"), ("b", "d")):
        desk.finish(jobs=[jobs[ended]])
        assert names(jobs, desk.turn()) == started
        assert sum(live.cost for live in state.live.values()) == 6
    desk.finish()
    assert names(jobs, desk.turn()) == "e f"
    desk.finish()
    desk.turn()
    assert not state.live
    assert state.free("normal") == 6


def test_a_head_that_waits_for_one_model_does_not_stop_the_other(desk: Desk, pool: Pool) -> None:
    make_executor(pool, "x", slots=1, models_offered=["big"])
    make_executor(pool, "y", slots=2, models_offered=["small"])
    acme = make_tenant("acme", pool)
    holder = submit(acme, model="big")[0]
    assert desk.turn() == [str(holder.id)]
    waiting = submit(acme, model="big")[0]
    small = submit(acme, 2, model="small")
    assert desk.turn() == [str(job.id) for job in small]
    desk.finish(jobs=[holder])
    assert desk.turn() == [str(waiting.id)]


def test_a_full_pool_does_not_stop_another(desk: Desk, pool: Pool) -> None:
    pool_dial(pool_id=pool.id, budget=1, reserve=0, **WHO)
    other = make_pool("other")
    make_executor(other)
    acme, beta = make_tenant("acme", pool), make_tenant("beta", other)
    first = submit(acme, 2)[0]
    there = submit(beta, 2)
    assert set(desk.turn()) == {str(job.id) for job in (first, *there)}


def test_a_dispatch_leaves_the_job_running_with_its_attempt_and_event(
    desk: Desk, pool: Pool
) -> None:
    job = submit(make_tenant("acme", pool, cost=3))[0]
    changed = Job.objects.get(id=job.id).changed
    desk.turn()
    row, attempt = Job.objects.get(id=job.id), Attempt.objects.get(job=job)
    assert (row.state, row.fence, row.reason) == ("running", 1, "placed")
    assert row.changed == changed
    assert (attempt.state, attempt.fence, attempt.cost, attempt.charge) == ("dispatched", 1, 3, 3)
    told = JobEvent.objects.get(job=job, event="placed")
    assert told.attempt_id == attempt.id
    assert told.data["cost"] == 3
    assert [(one.attempt, one.fence, one.queue) for one in desk.sent] == [
        (str(attempt.id), 1, "simulated")
    ]


def test_a_message_that_the_broker_refuses_is_sent_again(
    desk: Desk, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(make_tenant("acme", pool))[0]

    def away(_batch: object) -> None:
        raise OperationalError("ConnectionError")

    with monkeypatch.context() as patch:
        patch.setattr(desk.leader.messages, "send", away)
        assert desk.turn() == []
    assert Attempt.objects.get(job=job).state == "dispatched"
    Attempt.objects.update(sent_at=timezone.now() - timedelta(seconds=2.1))
    desk.leader._resend()
    assert [one.fence for one in desk.sent] == [1]


def test_a_canceled_job_frees_its_place_without_having_run(desk: Desk, pool: Pool) -> None:
    pool_dial(pool_id=pool.id, budget=1, reserve=0, **WHO)
    first, second = submit(make_tenant("acme", pool), 2)
    assert desk.turn() == [str(first.id)]
    job_cancel(job_id=first.id, now=timezone.now(), **WHO)
    assert desk.turn() == [str(second.id)]


def test_nothing_to_do_is_told_as_nothing_moved(desk: Desk, pool: Pool) -> None:
    make_tenant("acme", pool)
    desk.turn()
    assert desk.leader.turn() is False
    assert 0 <= desk.leader.wait_s() <= 1

"""What is published of the leader's memory: rows in order, turns, times, reasons, shares."""

import math
import os
import signal
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from scheduling import snapshot
from scheduling.controls.pools import pool_create, pool_dial
from scheduling.events import valkey_client
from scheduling.governor.loop import now_s
from scheduling.governor.publish import Publisher
from scheduling.governor.view import build
from scheduling.models import Job, Pool
from scheduling.models.xact import CurrentXact
from scheduling.services.cancel import job_cancel
from tenants.controls import tenant_weight
from tests.scheduling.factories import WHO, make_tenant, submit
from tests.scheduling.governor.desk import Desk


@pytest.fixture
def one_unit(pool: Pool) -> Pool:
    pool_dial(pool_id=pool.id, budget=1, reserve=0, **WHO)
    return pool


def published(desk: Desk, pool: Pool) -> tuple[snapshot.Header, list[dict[str, Any]]]:
    """Publish now and read it back; rows with the reasons and classes spelled out."""
    desk.turn()
    desk.leader.publisher.publish_full(desk.leader.book, now_s())
    header = snapshot.read_header(valkey_client(), str(pool.id))
    assert header is not None
    rows = snapshot.read_rows(valkey_client(), header)
    assert rows is not None
    return header, [_spelled(header, row) for row in rows]


def _spelled(header: snapshot.Header, row: Any) -> dict[str, Any]:
    values = {name: row[name].item() for name in snapshot.ROW.names or () if name != "job"}
    return values | {
        "job": str(UUID(bytes=row["job"].tobytes())),
        "tenant": header.tenants[row["tenant"]].slug,
        "reason": header.reasons[row["reason"]],
        "job_class": header.classes[row["job_class"]],
        "workflow": header.workflows[row["workflow"]][1],
    }


def test_rows_stand_in_the_order_in_which_they_will_start(desk: Desk, one_unit: Pool) -> None:
    a, b = make_tenant("a", one_unit), make_tenant("b", one_unit)
    submit(a, 3, expected_s=10)
    submit(b, 2, expected_s=10)
    desk.turn()
    header, rows = published(desk, one_unit)
    walked = [spot.job.id for spot in desk.state(one_unit).order.walk_all()]
    assert [row["job"] for row in rows] == walked
    assert [row["tenant"] for row in rows] == ["b", "a", "b", "a"]
    assert [row["turn"] for row in rows] == [0, 1, 1, 2]
    assert (header.startable, header.total, header.in_use) == (4, 4, 1)


def test_each_job_behind_one_lane_has_a_time_of_its_own(desk: Desk, one_unit: Pool) -> None:
    a = make_tenant("a", one_unit)
    runs = submit(a, expected_s=600)[0]
    assert desk.turn() == [str(runs.id)]
    submit(a, expected_s=1200)
    submit(a, expected_s=3600)
    header, rows = published(desk, one_unit)
    start = header.running[0].started_at
    assert [row["start"] - start for row in rows] == pytest.approx([600, 1800], abs=1)
    assert [row["finish"] - start for row in rows] == pytest.approx([1800, 5400], abs=1)
    assert header.clear_at == pytest.approx(start + 5400, abs=1)
    assert header.tenants[0].clear_at == header.clear_at
    assert all(row["low"] <= row["finish"] <= row["high"] for row in rows)
    later, again = published(desk, one_unit)
    assert [row["finish"] for row in again] == pytest.approx([row["finish"] for row in rows])
    assert later.seq > header.seq


def test_a_job_that_needs_both_lanes_starts_when_both_are_free(desk: Desk, pool: Pool) -> None:
    pool_dial(pool_id=pool.id, budget=2, reserve=0, **WHO)
    a = make_tenant("a", pool)
    submit(a, expected_s=600)
    desk.turn()
    wide = submit(a, cost=2, expected_s=100)[0]
    desk.turn()
    header, rows = published(desk, pool)
    assert [row["job"] for row in rows] == [str(wide.id)]
    start = header.running[0].started_at
    assert rows[0]["finish"] - start == pytest.approx(700, abs=1)


def test_what_cannot_start_stands_behind_with_a_reason_and_no_times(
    desk: Desk, one_unit: Pool
) -> None:
    a, b = make_tenant("a", one_unit), make_tenant("b", one_unit)
    submit(a)
    desk.turn()
    waits = submit(a)[0]
    paused = submit(a, paused=True)[0]
    later = submit(a, not_before=timezone.now() + timedelta(hours=1))[0]
    tenant_weight(tenant_id=b.tenant_id, weight=0, **WHO)
    held = submit(b)[0]
    retried = submit(a)[0]
    Job.objects.filter(id=retried.id).update(
        state="waiting", reason="retry_wait", changed=CurrentXact()
    )
    header, rows = published(desk, one_unit)
    told = {row["job"]: row["reason"] for row in rows}
    assert told == {
        str(waits.id): "head_waits_for_units",
        str(held.id): "tenant_held",
        str(paused.id): "job_paused",
        str(later.id): "not_before",
        str(retried.id): "retry_wait",
    }
    assert rows[0]["job"] == str(waits.id)
    assert [row["startable"] for row in rows] == [True, False, False, False, False]
    assert all(math.isnan(row["start"]) and row["turn"] == -1 for row in rows[1:])
    assert (header.startable, header.total) == (1, 5)
    assert [one.waiting for one in header.tenants] == [4, 1]


def test_a_job_that_can_never_fit_is_shown_with_that_reason(desk: Desk, pool: Pool) -> None:
    a = make_tenant("a", pool)
    big = submit(a, cost=8)[0]
    pool_dial(pool_id=pool.id, budget=2, reserve=0, **WHO)
    small = submit(a, cost=2)[0]
    assert desk.turn() == [str(small.id)]
    header, rows = published(desk, pool)
    assert [(row["job"], row["reason"]) for row in rows] == [(str(big.id), "never_fits")]
    assert header.tenants[0].waiting == 1


def test_the_header_tells_planned_and_actual_shares(desk: Desk, pool: Pool) -> None:
    a, b = make_tenant("a", pool, weight=3), make_tenant("b", pool, cost=2)
    make_tenant("idle", pool)
    submit(a, 2)
    submit(b, 3)
    header, _ = published(desk, pool)
    shown = {one.slug: (one.planned, one.actual, one.running, one.served) for one in header.tenants}
    assert shown == {
        "a": (0.75, 0.25, 2, 2), "b": (0.25, 0.75, 3, 6), "idle": (0.0, 0.0, 0, 0),
    }  # fmt: skip
    assert (header.budget, header.in_use, len(header.running)) == (10, 8, 5)
    assert header.executors[0].in_use == 5


def test_an_overdue_job_is_flagged(desk: Desk, one_unit: Pool) -> None:
    a = make_tenant("a", one_unit)
    submit(a, expected_s=0.001)
    desk.turn()
    header, _ = published(desk, one_unit)
    assert header.running[0].overdue


def test_the_first_estimate_is_stored_with_the_attempt_and_scored_at_the_end(
    desk: Desk, one_unit: Pool
) -> None:
    a = make_tenant("a", one_unit)
    submit(a, expected_s=5)
    desk.turn()
    job = submit(a, expected_s=5)[0]
    _, rows = published(desk, one_unit)
    desk.finish()
    assert desk.turn() == [str(job.id)]
    attempt = job.attempts.get()
    assert attempt.eta_finish is not None
    assert attempt.eta_finish.timestamp() == pytest.approx(rows[0]["finish"], abs=0.01)
    desk.finish()
    header, _ = published(desk, one_unit)
    assert header.eta_mean_error_s is not None
    assert header.eta_mean_error_s > 1


def await_child(publisher: Publisher, desk: Desk) -> None:
    end = time.monotonic() + 20
    while publisher._child is not None:
        publisher._listen(desk.leader.book, now_s())
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_full_pass_in_a_child_shows_what_the_leader_would_show(
    desk: Desk, one_unit: Pool
) -> None:
    a = make_tenant("a", one_unit)
    jobs = submit(a, 5)
    desk.turn()
    publisher, client = desk.leader.publisher, valkey_client()
    publisher._fork(desk.leader.book, now_s())
    await_child(publisher, desk)
    header = snapshot.read_header(client, str(one_unit.id))
    assert header is not None
    assert (header.total, header.startable, header.in_use) == (4, 4, 1)
    rows = snapshot.read_rows(client, header)
    assert rows is not None
    shown = [UUID(bytes=job.tobytes()) for job in rows["job"]]
    assert shown == [job.id for job in jobs[1:]]
    assert set(desk.leader.book.first_etas) == {str(job.id) for job in jobs[1:]}


def test_what_moves_between_two_full_passes_is_shown_at_once(desk: Desk, one_unit: Pool) -> None:
    a = make_tenant("a", one_unit)
    jobs = submit(a, 6)
    desk.turn()
    publisher, client = desk.leader.publisher, valkey_client()
    publisher.publish_full(desk.leader.book, now_s())
    job_cancel(job_id=jobs[3].id, acting_user="op", reason="x", now=timezone.now())
    desk.finish()
    desk.turn()
    publisher._freshen(desk.leader.book, now_s())
    header = snapshot.read_header(client, str(one_unit.id))
    assert header is not None
    assert header.seq > header.rows_seq
    assert [row.job for row in header.running] == [str(jobs[1].id)]
    assert (header.total, header.startable, header.tenants[0].waiting) == (3, 3, 3)
    rows = snapshot.read_rows(client, header)
    assert rows is not None
    left = [jobs[2].id, jobs[4].id, jobs[5].id]
    assert [UUID(bytes=job.tobytes()) for job in rows["job"]] == left
    second = snapshot.read_rows(client, header, 1, 1)
    assert second is not None
    assert [UUID(bytes=job.tobytes()) for job in second["job"]] == left[1:2]


def test_jobs_that_came_and_went_since_the_full_pass_are_in_nobodys_picture(
    desk: Desk, one_unit: Pool
) -> None:
    a = make_tenant("a", one_unit)
    submit(a, 3)
    desk.turn()
    publisher = desk.leader.publisher
    publisher.publish_full(desk.leader.book, now_s())
    late = submit(a, 1)[0]
    desk.turn()
    job_cancel(job_id=late.id, acting_user="op", reason="x", now=timezone.now())
    desk.turn()
    publisher._freshen(desk.leader.book, now_s())
    header = snapshot.read_header(valkey_client(), str(one_unit.id))
    assert header is not None
    assert (header.total, header.gone) == (2, b"")


def test_a_child_that_dies_leaves_the_last_picture_and_all_that_moved(
    desk: Desk, one_unit: Pool
) -> None:
    a = make_tenant("a", one_unit)
    submit(a, 4)
    desk.turn()
    publisher = desk.leader.publisher
    publisher.publish_full(desk.leader.book, now_s())
    desk.finish()
    desk.turn()
    publisher._fork(desk.leader.book, now_s())
    assert publisher._child is not None
    os.kill(publisher._child.pid, signal.SIGKILL)
    desk.finish()
    desk.turn()
    await_child(publisher, desk)
    publisher._freshen(desk.leader.book, now_s())
    header = snapshot.read_header(valkey_client(), str(one_unit.id))
    assert header is not None
    assert header.total == 1


def test_first_estimates_are_entered_some_a_turn_the_front_of_the_order_first(
    desk: Desk, one_unit: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = submit(make_tenant("a", one_unit), 6, expected_s=10)
    desk.turn()
    publisher, book = desk.leader.publisher, desk.leader.book
    book.first_etas.clear()
    publisher._new_etas.clear()
    monkeypatch.setattr("scheduling.governor.publish.LEARN_MOST", 2)
    publisher.publish_full(book, now_s())
    assert list(book.first_etas) == [str(job.id) for job in jobs[1:3]]
    publisher.offer(book, now_s())
    publisher.offer(book, now_s())
    assert list(book.first_etas) == [str(job.id) for job in jobs[1:]]
    finishes = [eta.finish for eta in book.first_etas.values()]
    assert finishes == sorted(finishes)


def test_estimates_of_ended_jobs_are_not_kept(desk: Desk, one_unit: Pool) -> None:
    a = make_tenant("a", one_unit)
    submit(a, 2)
    desk.turn()
    publisher = desk.leader.publisher
    publisher._fork(desk.leader.book, now_s())
    for _ in range(2):
        desk.finish()
        desk.turn()
    await_child(publisher, desk)
    assert desk.leader.book.first_etas == {}


def test_one_pool_that_cannot_be_shown_does_not_hide_the_others(
    desk: Desk, pool: Pool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = pool_create(slug="other", name="Other", budget=1, reserve=0, **WHO)
    make_tenant("a", pool)
    desk.turn()

    def broken(book: Any, stamp: Any) -> Any:
        if stamp.pool == str(pool.id):
            raise ZeroDivisionError
        return build(book, stamp)

    monkeypatch.setattr("scheduling.governor.publish.build", broken)
    desk.leader.publisher.publish_full(desk.leader.book, now_s())
    assert "could not be built" in caplog.text
    assert snapshot.read_header(valkey_client(), str(other.id)) is not None

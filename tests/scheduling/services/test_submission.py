"""Submitting jobs: what is refused, what is decided, and what is stored of it."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone

from billing.models import Balance, Reservation
from scheduling import snapshot
from scheduling.events import valkey_client
from scheduling.models import Decision, Executor, Job, JobEvent, Pool, Workflow
from scheduling.services import submission
from scheduling.services.drafts import FieldError, Refused, Submission
from scheduling.services.foresight import KEPT_S
from scheduling.services.submission import Accepted
from tenants.controls import tenant_weight
from tenants.models import Workspace
from tests.scheduling.factories import (
    WHO,
    accepted,
    asked,
    make_budget,
    make_executor,
    make_policy,
    make_price,
    make_tenant,
    submit,
    submit_all,
)

NAN = float("nan")


def refused(space: Workspace, **more: Any) -> list[str]:
    """Submit one job that must be refused; returns the names of the wrong fields."""
    may_ask = more.pop("may_ask", ("normal", "batch"))
    answer = submit_all(space, [asked(**more)], may_ask=may_ask)[0]
    assert isinstance(answer, Refused), answer
    assert all(error.sentence for error in answer.errors)
    assert not Job.objects.exists()
    return [error.field for error in answer.errors]


@pytest.mark.parametrize(
    ("wrong", "fields"),
    [
        ({"workflow": "nope"}, ["workflow"]),
        ({"mission": "nope"}, ["mission"]),
        ({"job_class": "nope"}, ["class"]),
        ({"job_class": "incident"}, ["class"]),
        ({"cost": 0}, ["cost"]),
        ({"cost": 1_000_001}, ["cost"]),
        ({"max_attempts": 0}, ["max_attempts"]),
        ({"max_attempts": 101}, ["max_attempts"]),
        ({"expected_s": -1.0}, ["expected_s"]),
        ({"expected_s": NAN}, ["expected_s"]),
        ({"expected_s": 31 * 86_400.0}, ["expected_s"]),
        ({"risk": "huge"}, ["risk"]),
        ({"kind": "nope"}, ["kind"]),
        ({"seconds": -1}, ["payload.seconds"]),
        ({"model": "m" * 201}, ["model"]),
        ({"model": "a\x00b"}, ["model"]),
        ({"region": "r" * 61}, ["region"]),
        ({"labels": ("x" * 61,)}, ["labels"]),
        ({"labels": ("ok", "\x00")}, ["labels"]),
        ({"workflow": "nope", "cost": 0, "kind": "nope"}, ["workflow", "cost", "kind"]),
    ],
)
def test_every_wrong_field_is_named_and_nothing_stored(
    acme: Workspace, wrong: dict[str, Any], fields: list[str]
) -> None:
    assert refused(acme, **wrong) == fields


def test_a_workflow_of_another_tenant_is_unknown(acme: Workspace, pool: Pool) -> None:
    other = make_tenant("other", pool)
    Workflow.objects.filter(tenant=other.tenant_id).update(slug="theirs")
    answer = submit_all(acme, [asked(workflow="theirs")])[0]
    sentence = "There is no workflow 'theirs'; this tenant has: build."
    assert answer == Refused(errors=(FieldError(field="workflow", sentence=sentence),))


def test_a_good_job_is_stored_with_decision_event_and_reservation(acme: Workspace) -> None:
    make_budget(acme, "5")
    one = accepted(acme, cost=3, labels=(), risk="high", max_attempts=7)
    job, decision = Job.objects.get(), Decision.objects.get()
    assert (job.state, job.cost, job.risk, job.max_attempts) == (
        "queued", 3, "high", 7,
    )  # fmt: skip
    assert (job.tenant_id, job.workspace_id, job.submitted_by) == (acme.tenant_id, acme.id, "7")
    assert (one.job.seq, one.job.submitted_at) == (job.seq, job.submitted_at)
    reservation = Reservation.objects.get()
    assert (reservation.job_id, reservation.tokens) == (job.id, 1_000_000)
    assert reservation.spend == 1
    assert decision.reservation_id == reservation.id
    assert decision.expires_at == reservation.expires_at
    event = JobEvent.objects.get()
    assert (event.job_id, event.event, event.reason) == (job.id, "queued", "in_order")
    assert Decimal(event.data["spend"]) == 1
    assert Balance.objects.get().held == 1


def test_without_a_snapshot_a_job_is_queued_without_a_place(acme: Workspace) -> None:
    decision = accepted(acme).decision
    assert (decision.verdict, decision.reason, decision.place) == ("queued", "in_order", None)


def sim_row(**more: Any) -> snapshot.ExecutorRow:
    fields: dict[str, Any] = {
        "id": "e1", "slug": "sim", "kind": "simulated", "slots": 10, "configured_slots": 10,
        "in_use": 8, "health": "ok", "circuit": "closed", "enabled": True, "draining": False,
        "tenant": None, "models": [],
    }  # fmt: skip
    return snapshot.ExecutorRow(**(fields | more))


def header(pool: Pool, space: Workspace, **more: Any) -> snapshot.Header:
    row = snapshot.TenantRow(
        id=str(space.tenant_id), slug="acme", name="", weight=1, held=False, waiting=0, running=0,
        in_use=0, planned=0, actual=0, served=0, clear_at=None,
    )  # fmt: skip
    other = snapshot.TenantRow(
        id="t2", slug="beta", name="", weight=1, held=False, waiting=0, running=0, in_use=0,
        planned=0, actual=0, served=0, clear_at=None,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "pool": str(pool.id), "slug": "main", "epoch": 1, "seq": 1,
        "at": timezone.now().timestamp(), "policy": 1, "control": 1, "budget": 10, "reserve": 0,
        "in_use": 0, "startable": 0, "total": 0, "clear_at": None, "clear_low": None,
        "clear_high": None, "tenants": [row, other], "workspaces": ["w"],
        "workflows": [("w", "build")],
        "classes": ["incident", "expedite", "critical", "normal", "batch"],
        "reasons": ["in_order"], "executors": [sim_row()], "running": [], "eta_mean_error_s": None,
        "eta_hit_rate": None, "rows_seq": 1,
    }  # fmt: skip
    return snapshot.Header(**(fields | more))


def waiting(tenant: int, turn: int, finish: float, job_class: int = 3) -> tuple[object, ...]:
    return (
        b"\0" * 16, tenant, 0, 0, job_class, 0, True, False, 1, turn, 0.0, finish - 60, finish,
        finish, finish,
    )  # fmt: skip


def publish(pool: Pool, space: Workspace, rows: list[tuple[object, ...]], **more: Any) -> None:
    told = header(pool, space, startable=len(rows), total=len(rows), **more)
    snapshot.write(valkey_client(), told, snapshot.pack(rows))


@pytest.mark.parametrize("more", [{"slots": 0}, {"in_use": 10}, {"draining": True}])
def test_without_a_free_slot_no_job_is_promised_to_start_at_once(
    acme: Workspace, pool: Pool, more: dict[str, Any]
) -> None:
    publish(pool, acme, [], executors=[sim_row(**more)])
    assert accepted(acme).decision.verdict == "queued"


def test_where_nothing_waits_and_units_are_free_a_job_is_admitted(
    acme: Workspace, pool: Pool
) -> None:
    publish(pool, acme, [], in_use=8)
    answers = submit_all(acme, [asked()] * 3)
    verdicts = [answer.decision.verdict for answer in answers if isinstance(answer, Accepted)]
    assert verdicts == ["admitted", "admitted", "queued"]


def test_an_old_snapshot_promises_nothing(acme: Workspace, pool: Pool) -> None:
    publish(pool, acme, [], at=timezone.now().timestamp() - 16)
    assert accepted(acme).decision.verdict == "queued"


def test_a_place_counts_higher_classes_and_the_smaller_turns(acme: Workspace, pool: Pool) -> None:
    now = timezone.now().timestamp()
    rows = [
        waiting(1, 9, now + 60, job_class=2),
        *(waiting(n % 2, 40 + n // 2, now + 60 * (n + 2)) for n in range(6)),
        waiting(1, 43, now + 600),
    ]
    publish(pool, acme, rows, in_use=10)
    places = [accepted(acme).decision.place for _ in range(1)]
    assert places == [9]


def test_a_newcomer_stands_at_the_class_turn_and_not_before_everybody(
    acme: Workspace, pool: Pool
) -> None:
    now = timezone.now().timestamp()
    publish(pool, acme, [waiting(1, 40 + n, now + 60 * (n + 1)) for n in range(5)], in_use=10)
    first, second, third = (
        answer.decision.place
        for answer in submit_all(acme, [asked()] * 3)
        if isinstance(answer, Accepted)
    )
    assert (first, second, third) == (2, 4, 6)


def test_each_job_of_a_bulk_has_a_finish_of_its_own(acme: Workspace, pool: Pool) -> None:
    now = timezone.now().timestamp()
    publish(pool, acme, [waiting(1, 40, now + 60)], in_use=10)
    etas = [
        answer.decision.eta
        for answer in submit_all(acme, [asked(expected_s=30)] * 4)
        if isinstance(answer, Accepted)
    ]
    times = [eta.timestamp() - now for eta in etas if eta is not None]
    assert times == pytest.approx([90, 120, 150, 180], abs=1)


def test_a_newer_snapshot_is_read_anew_once_the_last_was_kept_its_time(
    acme: Workspace, pool: Pool
) -> None:
    began = timezone.now()
    places = []
    for version, later in ((1, 0.0), (2, KEPT_S / 2), (2, 2 * KEPT_S)):
        rows = [waiting(1, 0, began.timestamp() + 60)] * version
        publish(pool, acme, rows, in_use=10, seq=version, rows_seq=version)
        now = began + timedelta(seconds=later)
        places.append([accepted(acme, now=now).decision.place for _ in range(2)])
    assert places == [[2, 2], [2, 2], [3, 3]]


def test_rows_that_are_lost_promise_nothing(acme: Workspace, pool: Pool) -> None:
    told = header(pool, acme, startable=3, total=3)
    snapshot.write_header(valkey_client(), told)
    answers = submit_all(acme, [asked()] * 2)
    places = [one.decision.place for one in answers if isinstance(one, Accepted)]
    assert places == [None, None]


def verdict(space: Workspace, **more: Any) -> tuple[str, str]:
    decision = accepted(space, **more).decision
    return decision.verdict, decision.reason


def test_not_before_defers_until_then_and_holds_no_money(acme: Workspace) -> None:
    make_budget(acme, "5")
    later = timezone.now() + timedelta(hours=2)
    one = accepted(acme, not_before=later)
    assert (one.decision.verdict, one.decision.reason) == ("deferred", "not_before")
    assert (one.job.state, one.job.wake_at, one.decision.retry_at) == ("deferred", later, later)
    assert not Reservation.objects.exists()


def test_a_full_window_defers_to_its_end(acme: Workspace) -> None:
    make_budget(acme, "1", window="day")
    now = datetime(2030, 5, 5, 12, tzinfo=timezone.get_current_timezone())
    assert accepted(acme, now=now).decision.verdict == "queued"
    one = accepted(acme, now=now)
    assert (one.decision.verdict, one.decision.reason) == ("deferred", "budget")
    assert one.job.wake_at == datetime(2030, 5, 6, tzinfo=timezone.get_current_timezone())


def test_money_that_is_only_held_defers_until_some_is_released(acme: Workspace) -> None:
    make_budget(acme, "1")
    submit(acme)
    one = accepted(acme)
    assert (one.job.state, one.job.reason, one.job.wake_at) == ("deferred", "budget", None)
    assert "tenant" in one.decision.sentence


def test_an_estimate_above_the_limit_is_denied_for_good(acme: Workspace) -> None:
    make_budget(acme, "0.5")
    one = accepted(acme)
    assert (one.job.state, one.decision.reason) == ("denied", "budget")
    assert one.job.finished_at is not None


@pytest.mark.parametrize("scope", ["workspace", "member", "workflow"])
def test_every_scope_of_the_chain_must_have_room(acme: Workspace, scope: str) -> None:
    ids = {"workspace": acme.id, "member": "7", "workflow": Workflow.objects.get().id}
    make_budget(acme, "0.5", scope=scope, scope_id=ids[scope])
    one = accepted(acme)
    assert (one.decision.verdict, one.decision.reason) == ("denied", "budget")
    assert scope in one.decision.sentence


def test_a_job_larger_than_its_pool_is_denied_and_told_the_sizes(acme: Workspace) -> None:
    decision = accepted(acme, cost=11).decision
    assert (decision.verdict, decision.reason) == ("denied", "never_fits")
    assert "11" in decision.sentence
    assert "10" in decision.sentence
    assert decision.alternatives


def test_the_reserve_counts_for_incidents_alone(acme: Workspace, pool: Pool) -> None:
    Pool.objects.filter(id=pool.id).update(reserve=4)
    assert verdict(acme, cost=7) == ("denied", "never_fits")
    assert verdict(acme, cost=7, job_class="incident") == ("queued", "in_order")


def test_a_model_that_nobody_offers_is_denied_by_its_name(acme: Workspace, pool: Pool) -> None:
    make_executor(pool, "models", models_offered=["opus-4-1"])
    one = accepted(acme, model="opus-4.1")
    assert (one.decision.verdict, one.decision.reason) == ("denied", "unpriced_model")
    assert "opus-4.1" in one.decision.sentence
    assert verdict(acme, model="opus-4-1") == ("queued", "in_order")


def test_an_offer_without_a_price_is_denied_until_it_is_priced(acme: Workspace, pool: Pool) -> None:
    make_executor(pool, "paid", models_offered=["m"])
    Executor.objects.filter(slug="paid").update(provider="other")
    assert verdict(acme, model="m") == ("denied", "unpriced_model")
    make_price("other", "m", output="10")
    make_budget(acme, "9")
    assert verdict(acme, model="m") == ("denied", "budget")


def test_work_that_no_executor_can_run_is_denied(acme: Workspace) -> None:
    one = accepted(acme, region="mars")
    assert (one.decision.verdict, one.decision.reason) == ("denied", "no_executor")


def test_a_pool_without_executors_runs_nothing(acme: Workspace) -> None:
    Executor.objects.all().delete()
    assert verdict(acme) == ("denied", "no_executor")


def test_an_offered_model_in_another_region_is_no_matter_of_price(
    acme: Workspace, pool: Pool
) -> None:
    make_executor(pool, "models", models_offered=["m"], region="eu")
    assert verdict(acme, model="m", region="us") == ("denied", "no_executor")


def test_an_executor_that_is_down_now_is_waited_for(acme: Workspace) -> None:
    Executor.objects.update(enabled=False, health="down")
    assert verdict(acme) == ("queued", "in_order")


def test_a_full_backlog_is_denied_with_a_time_to_try_again(acme: Workspace) -> None:
    make_policy(backlog={"workspace": 2})
    now = timezone.now()
    answers = submit_all(acme, [asked()] * 3, now=now)
    reasons = [answer.decision.reason for answer in answers if isinstance(answer, Accepted)]
    assert reasons == ["in_order", "in_order", "backlog_full"]
    last = Decision.objects.latest("id")
    assert (last.verdict, last.retry_at) == ("denied", now + timedelta(seconds=30))
    assert Reservation.objects.count() == 2


def test_a_full_tenant_denies_its_other_workspaces_too(acme: Workspace) -> None:
    make_policy(backlog={"tenant": 2})
    submit(acme, 2)
    other = Workspace.objects.create(tenant=acme.tenant, slug="ops", name="Ops")
    assert verdict(other) == ("denied", "backlog_full")


def test_a_held_tenants_job_is_queued_and_told_so(acme: Workspace) -> None:
    tenant_weight(tenant_id=acme.tenant_id, weight=0, **WHO)
    acme.refresh_from_db()
    assert verdict(acme) == ("queued", "tenant_held")


@pytest.mark.parametrize("hours", [-1, 0])
def test_a_deadline_that_has_passed_is_denied(acme: Workspace, hours: int) -> None:
    now = timezone.now()
    assert verdict(acme, now=now, deadline=now + timedelta(hours=hours)) == ("denied", "deadline")


def test_a_bulk_of_1200_keeps_its_order_and_refuses_item_by_item(acme: Workspace) -> None:
    wanted = [asked(cost=0 if n % 100 == 7 else n % 5 + 1) for n in range(1200)]
    answers = submit_all(acme, wanted)
    assert [n for n, one in enumerate(answers) if isinstance(one, Refused)] == [
        n for n in range(1200) if n % 100 == 7
    ]
    jobs = [answer.job for answer in answers if isinstance(answer, Accepted)]
    assert [job.cost for job in jobs] == [one.cost for one in wanted if one.cost]
    stored = list(Job.objects.order_by("seq").values_list("id", "cost"))
    assert stored == [(job.id, job.cost) for job in jobs]
    assert all(answer.decision.job_id == answer.job.id for answer in answers
               if isinstance(answer, Accepted))  # fmt: skip
    for rows in (Decision, JobEvent, Reservation):
        assert rows.objects.count() == 1188


def test_when_the_last_write_fails_nothing_of_the_set_is_stored(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_budget(acme, "50")
    before = submit(acme)

    def broken(*_rows: object) -> None:
        raise DatabaseError

    monkeypatch.setattr(submission, "_store", broken)
    with pytest.raises(DatabaseError):
        submit_all(acme, [asked()] * 3)
    assert list(Job.objects.values_list("id", flat=True)) == [before[0].id]
    assert (Decision.objects.count(), Reservation.objects.count()) == (1, 1)
    assert Balance.objects.get().held == 1


def test_a_submission_is_plain_data() -> None:
    one = Submission(workflow="w", kind="k", payload={})
    assert (one.idempotent, one.paused, one.job_class) == (True, False, "")

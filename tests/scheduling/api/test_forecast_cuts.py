"""What the forecast tells where there is more than it tells, and where something is missing."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import Q

from billing.models import Balance, Budget
from scheduling.models import Job, PolicyVersion
from scheduling.selectors.foresight import budgets, honesty, outlook
from scheduling.selectors.foresight.history import _ARRIVALS, GROUPINGS
from scheduling.selectors.foresight.outlook import Asked, pool_ahead
from scheduling.selectors.limits import first_id
from tests.scheduling.api.conftest import Caller, World, person
from tests.scheduling.api.test_forecast import came, operator, ran

__all__ = ["operator"]
HOUR = timedelta(hours=1)


@pytest.fixture
def theirs(world: World, django_user_model: Any) -> Caller:
    """Who sees the other tenant as a whole, and no more."""
    return person(django_user_model, "theirs", "tenant_admin", world.other)


def budget(world: World, scope_id: str, limit: int, **more: Any) -> Budget:
    fields = {"scope": "member", "dimension": "spend", "window": "none"} | more
    return Budget.objects.create(tenant=world.acme, scope_id=scope_id, limit=limit, **fields)


def used_up(row: Budget) -> None:
    Balance.objects.create(
        budget=row, window_start=datetime(1970, 1, 1, tzinfo=UTC), spent=row.limit
    )


def test_a_ceiling_of_single_attempts_is_told_as_never_used_up(
    world: World, operator: Caller
) -> None:
    budget(world, str(world.acme.id), 5, scope="attempt")
    answer = operator.get("/forecast")
    assert answer.status_code == 200
    told = answer.json()["budgets"]
    assert [(one["scope"], one["left"], one["exhausted_at"]) for one in told] == [
        ("attempt", "5", None)
    ]


def test_without_policy_and_runs_nothing_is_foretold(world: World, operator: Caller) -> None:
    PolicyVersion.objects.update(state="retired")
    answer = operator.get("/forecast")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "No scheduling policy is published" in answer.json()["detail"]
    with pytest.raises(CommandError, match="publish one"):
        call_command("forecast")


def test_a_small_tenants_groups_stay_beside_a_large_ones(
    world: World, operator: Caller, theirs: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook, "MOST_GROUPS", 1)
    came(world.web, 3, 5)
    came(world.main, 1, 5)
    told = theirs.get("/forecast").json()
    assert [(one["tenant"], one["seen"]) for one in told["groups"]] == [("other", 1)]
    assert told["groups_left_out"] == 0
    whole = operator.get("/forecast").json()
    assert [one["tenant"] for one in whole["groups"]] == ["acme"]
    assert whole["groups_left_out"] == 1
    assert operator.get("/forecast", workflow="none").json()["groups"] == []


def test_the_budgets_that_end_first_are_told_and_the_others_counted(
    world: World, operator: Caller, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(budgets, "MOST", 1)
    _, last, _ = (budget(world, name, 5) for name in "abc")
    used_up(last)
    told = operator.get("/forecast").json()
    assert [one["id"] for one in told["budgets"]] == [str(last.id)]
    assert told["budgets_left_out"] == 2
    call_command("forecast")
    assert "2 more budgets, used up later or not at all, are left out." in capsys.readouterr().out
    monkeypatch.setattr(budgets, "MOST_RANKED", 2)
    assert operator.get("/forecast").json()["budgets_left_out"] == 2


def test_more_budgets_are_no_more_statements(
    world: World, operator: Caller, django_assert_num_queries: Any
) -> None:
    now = datetime.now(UTC)
    rows = [budget(world, f"m{n}", n + 1, window="day") for n in range(12)]
    with django_assert_num_queries(6):
        found, _ = budgets.budgets_ahead(Q(), now)
    assert {one.row.id for one in found} == {row.id for row in rows}
    assert {one.row.left for one in found} == {Decimal(n + 1) for n in range(12)}


def test_of_the_present_hour_only_the_rest_is_worked_off(world: World, operator: Caller) -> None:
    ran(came(world.web, 1, 300)[0], hours_ago=300, waited_s=1, took_s=1800)
    came(world.web, 12, 0)
    at = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    begun, whole = (
        pool_ahead(world.pool, Asked(), None, (at + passed).timestamp()).hours[0]
        for passed in (HOUR * 0.75, HOUR)
    )
    # Four jobs run at once, half an hour each: 8 an hour of the 12, 2 in the last quarter.
    assert begun.depth == pytest.approx(10, abs=0.5)
    assert whole.depth == pytest.approx(4, abs=0.5)


def test_arrivals_are_bounded_by_their_ids(world: World) -> None:
    statement = _ARRIVALS.format(key=GROUPINGS["kind"], labels="")
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement}", [first_id(9e8), world.pool.id, 9e8])
        plan = " ".join(line for (line,) in cursor.fetchall())
    assert re.search(r"\bid >= '", plan), plan


@pytest.fixture
def scored(world: World) -> list[Job]:
    """Four jobs, of two tenants; the newest attempt is the last one's."""
    jobs = [*came(world.web, 3, 3), *came(world.main, 1, 3)]
    for number, (job, hours) in enumerate(zip(jobs, (2.5, 2.5, 2, 2.25), strict=True)):
        eta = (900 + number, 1, 5000)
        ran(job, hours_ago=hours, waited_s=1200, took_s=600, eta=eta)
    return jobs


def test_the_naive_formula_counts_what_was_pending_at_each_moment(
    scored: list[Job], operator: Caller
) -> None:
    told = operator.get("/forecast/honesty").json()["rows"]
    # At first 1 and then 2 wait; a quarter of an hour later 3; then 2, for the first two run.
    # One is 600 s / 10 units; all took 1800 s.
    naive = {(one["tenant"], one["count"]): one["naive_error_s"] for one in told}
    assert naive["", 4] == pytest.approx(1800 - (1 + 2 + 3 + 2) * 60 / 4, abs=1)
    assert naive["other", 1] == pytest.approx(1800 - 3 * 60, abs=1)


def test_the_newest_estimates_alone_are_scored(
    scored: list[Job], operator: Caller, theirs: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(honesty, "MOST", 2)
    assert operator.get("/forecast/honesty").json()["rows"][0]["count"] == 2
    (whole, own) = theirs.get("/forecast/honesty").json()["rows"]
    assert (whole["count"], own["tenant"], own["count"]) == (1, "other", 1)


def test_a_score_is_kept_for_some_minutes_for_those_who_see_the_same(
    world: World, scored: list[Job], operator: Caller, theirs: Caller, valkey: Any
) -> None:
    first = operator.get("/forecast/honesty").json()
    ran(came(world.main, 1, 1)[0], hours_ago=1, waited_s=5, took_s=5, eta=(10, 5, 15))
    assert operator.get("/forecast/honesty").json() == first
    assert theirs.get("/forecast/honesty").json()["rows"][0]["count"] == 2
    valkey.delete(f"{honesty.KEY}{world.pool.id}:day:all")
    assert operator.get("/forecast/honesty").json()["rows"][0]["count"] == 5

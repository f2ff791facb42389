"""Submissions at once, each on a connection of its own, against one budget."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db import connection

from billing.models import Balance
from billing.services.checks import balances_differ
from scheduling.models import Attempt, Executor, Job
from scheduling.services.drafts import Refused
from scheduling.services.submission import Accepted
from tenants.models import Workspace
from tests.scheduling.factories import (
    asked,
    claim,
    done,
    make_budget,
    make_tenant,
    place,
    settle,
    submit,
    submit_all,
)


@pytest.mark.django_db(transaction=True)
def test_parallel_submissions_never_overshoot_a_budget(
    acme: Workspace, worker: int, executor: Executor
) -> None:
    for _ in range(10):
        _one_race(make_tenant(f"race-{Job.objects.count()}", executor.pool), worker)
    assert balances_differ() == []


def _one_race(space: Workspace, worker: int) -> None:
    """Limit 10.00, spent 7.00, eight submissions of 0.90: three get in."""
    budget = make_budget(space, "10.00")
    spent = place(submit(space, tokens={"input": 0, "output": 7_000_000})[0])
    claim(worker, [spent])
    settle([spent], done(output_total=7_000_000))
    barrier = threading.Barrier(8)
    small = asked(tokens={"input": 0, "output": 900_000})

    def ask(_: int) -> Accepted | Refused:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=20)
            return submit_all(space, [small])[0]
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))
    decisions = [answer.decision for answer in answers if isinstance(answer, Accepted)]
    assert sorted(one.verdict for one in decisions) == ["deferred"] * 5 + ["queued"] * 3
    assert all("tenant" in one.sentence for one in decisions if one.verdict == "deferred")
    balance = Balance.objects.get(budget=budget)
    assert (balance.spent, balance.held) == (Decimal(7), Decimal("2.7"))
    attempts = [place(answer.job) for answer in answers
                if isinstance(answer, Accepted) and answer.job.state == "queued"]  # fmt: skip
    claim(worker, attempts)
    settle(attempts, done(output_total=400_000))
    balance.refresh_from_db()
    assert (balance.spent, balance.held) == (Decimal("8.2"), Decimal(0))
    Job.objects.filter(state="deferred").delete()
    verdicts = [submit_all(space, [small])[0] for _ in range(3)]
    states = [answer.job.state for answer in verdicts if isinstance(answer, Accepted)]
    assert states == ["queued", "queued", "deferred"]
    assert Attempt.objects.filter(job__tenant=space.tenant_id).count() == 4


@pytest.mark.django_db(transaction=True)
def test_first_submissions_of_a_window_at_once_lose_no_hold(acme: Workspace) -> None:
    """Eight connections meet budgets whose balances none of them has seen, four days in a row."""
    budgets = [
        make_budget(acme, "500", window="day"),
        make_budget(acme, "500", window="hour", scope="workspace", scope_id=acme.id),
        make_budget(acme, "500", window="day", dimension="attempts"),
    ]
    days = [datetime(2031, 3, day, 12, tzinfo=UTC) for day in range(1, 5)]
    barrier = threading.Barrier(8)

    def ask(_: int) -> list[Accepted | Refused]:
        try:
            connection.ensure_connection()
            return [answer for day in days for answer in at(day)]
        finally:
            connection.close()

    def at(day: datetime) -> list[Accepted | Refused]:
        barrier.wait(timeout=20)
        return submit_all(acme, [asked()] * 2, now=day)

    with ThreadPoolExecutor(8) as threads:
        answers = [one for some in threads.map(ask, range(8)) for one in some]
    assert all(isinstance(one, Accepted) and one.job.state == "queued" for one in answers)
    held = Balance.objects.values_list("budget", "held")
    assert sorted(held) == sorted((budget, Decimal(16)) for budget in budgets for _ in days)
    assert balances_differ() == []

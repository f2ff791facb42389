"""Backlog caps: exact when many submit at once, and no wait where they are far away."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from scheduling.models import Executor, Job, Pool
from scheduling.services import backlog
from scheduling.services.drafts import Refused
from tenants.models import Workspace
from tenants.services import workspace_create
from tests.scheduling.factories import (
    WHO,
    accepted,
    asked,
    make_policy,
    make_tenant,
    submit,
    submit_all,
)

CAP = 10
AT_ONCE = 8


def _waiting(**of: Any) -> int:
    return Job.objects.filter(state="queued", **of).count()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("scope", ["workspace", "tenant", "total"])
def test_a_cap_of_ten_admits_ten_of_eight_connections_that_submit_at_once(
    executor: Executor, scope: str
) -> None:
    spaces = _spaces(executor.pool, scope)
    make_policy(backlog={scope: CAP})
    rounds = 50 if scope == "workspace" else 10
    barrier = threading.Barrier(AT_ONCE, action=_clear)
    seen: list[Counter[str]] = []

    def ask(client: int) -> None:
        space = spaces[client % len(spaces)]
        try:
            for _ in range(rounds):
                barrier.wait(timeout=30)
                for _ in range(2):
                    submit_all(space, [asked()])
                after.wait(timeout=30)
        finally:
            connection.close()

    def count() -> None:
        seen.append(Counter(Job.objects.values_list("state", flat=True)))

    after = threading.Barrier(AT_ONCE, action=count)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(ask, range(AT_ONCE)))
    assert seen == [Counter(queued=CAP, denied=2 * AT_ONCE - CAP)] * rounds


def _clear() -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE scheduling_job CASCADE")


def _spaces(pool: Pool, scope: str) -> list[Workspace]:
    first = make_tenant("acme", pool)
    if scope == "workspace":
        return [first]
    if scope == "tenant":
        return [first, workspace_create(tenant=first.tenant, slug="more", name="More", **WHO)]
    return [first, make_tenant("beta", pool)]


def test_a_sheddable_class_is_refused_first_and_told_which_would_be_taken(
    acme: Workspace,
) -> None:
    make_policy(backlog={"total": 10, "shed_share": 0.5})
    submit(acme, 5)
    shed = accepted(acme, job_class="batch").decision
    assert (shed.verdict, shed.reason) == ("denied", "shed")
    assert shed.retry_at is not None
    actions = [(one["action"], one["sentence"]) for one in shed.alternatives]
    assert actions[0][0] == "try_later"
    assert ("change_class", "class normal now") in actions
    assert not {"class batch now", "class expedite now"} & {text for _, text in actions}
    assert [job.state for job in submit(acme, 6)] == ["queued"] * 5 + ["denied"]
    assert accepted(acme, job_class="batch").decision.reason == "backlog_full"


def test_the_jobs_of_other_tenants_count_for_the_cap_of_all_without_a_snapshot(
    acme: Workspace, executor: Executor
) -> None:
    make_policy(backlog={"total": 3})
    submit(make_tenant("beta", executor.pool), 2)
    assert [job.state for job in submit(acme, 2)] == ["queued", "denied"]


@pytest.mark.parametrize(("waiting", "locks"), [(0, 0), (4_000, 1)])
def test_locks_are_taken_near_a_cap_and_nowhere_else(
    acme: Workspace, waiting: int, locks: int, django_assert_num_queries: Any
) -> None:
    make_policy(backlog={"workspace": 5_000})
    submit(acme, 1)
    submit(acme, waiting)
    submit(acme, 1)  # remembers the prices
    # the clock with the backlog, the hold, the rows, and a savepoint; the lock and a count behind it
    # the clock with the backlog, the rows, and a savepoint; the lock and a count behind it
    with django_assert_num_queries(4 + 2 * locks):
        submit(acme, 1)


def test_far_above_a_cap_nobody_waits_either(acme: Workspace, monkeypatch: Any) -> None:
    monkeypatch.setattr(backlog, "MARGIN", 2)
    monkeypatch.setattr(backlog, "AT_ONCE", 1)
    submit(acme, 10)
    make_policy(backlog={"workspace": 5, "tenant": 50})
    taken: list[str] = []
    monkeypatch.setattr(backlog, "_counted", lambda *_: taken.append("locked"))
    assert accepted(acme).decision.reason == "backlog_full"
    assert taken == []


def test_a_refused_row_takes_no_place_in_a_backlog(acme: Workspace) -> None:
    make_policy(backlog={"workspace": 2})
    answers = submit_all(acme, [asked(kind="nope"), asked(), asked(), asked()])
    assert isinstance(answers[0], Refused)
    assert _waiting() == 2
    assert Job.objects.filter(state="denied", reason="backlog_full").count() == 1

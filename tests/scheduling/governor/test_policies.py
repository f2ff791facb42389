"""A new policy acts on the backlog that is there, and each decision names what it was made under."""

import time
from typing import Any

import pytest

from scheduling.controls.policies import policy_roll_back
from scheduling.controls.pools import pool_dial
from scheduling.events import valkey_client
from scheduling.models import Decision, Job, Pool
from scheduling.snapshot import read_header, read_rows
from tenants.controls import control_number, tenant_weight
from tests.scheduling.factories import (
    WHO,
    accepted,
    asked,
    make_policy,
    make_tenant,
    submit,
    submit_all,
)
from tests.scheduling.governor.desk import Desk

MANY = 2_000


@pytest.fixture
def closed(pool: Pool) -> Pool:
    """The pool with its dial at 1, so that one job runs and the others wait."""
    pool_dial(pool_id=pool.id, budget=1, reserve=0, **WHO)
    return pool


def order(desk: Desk, pool: Pool) -> list[str]:
    return [spot.job.id for spot in desk.state(pool).order.walk_all()]


def published(desk: Desk, pool: Pool) -> Any:
    """Make a full pass now and return its header."""
    desk.leader.publisher.publish_full(desk.leader.book, time.time())
    return read_header(valkey_client(), str(pool.id))


def test_a_new_class_table_reorders_those_who_wait(desk: Desk, closed: Pool) -> None:
    acme = make_tenant("acme", closed)
    submit(acme)
    desk.turn()
    normal, batch = submit(acme)[0], submit(acme, job_class="batch")[0]
    desk.turn()
    assert order(desk, closed) == [str(normal.id), str(batch.id)]
    first = desk.leader.book.config.policy.number
    make_policy(classes=[{"name": "batch"}, {"name": "normal"}])
    desk.turn()
    assert order(desk, closed) == [str(batch.id), str(normal.id)]
    policy_roll_back(number=first, note="no", acting_user="root")
    desk.turn()
    assert order(desk, closed) == [str(normal.id), str(batch.id)]


def test_what_runs_in_a_class_that_is_gone_is_shown_in_the_default_one(
    desk: Desk, closed: Pool
) -> None:
    job = submit(make_tenant("acme", closed), job_class="batch")[0]
    assert desk.turn() == [str(job.id)]
    number = make_policy(classes=[{"name": "normal"}])
    desk.turn()
    header = published(desk, closed)
    assert (header.policy, header.classes) == (number, ["review", "normal"])
    assert [(one.job, one.job_class) for one in header.running] == [(str(job.id), 1)]


def test_decisions_name_the_policy_and_the_lever_that_they_were_made_under(
    desk: Desk, closed: Pool
) -> None:
    acme = make_tenant("acme", closed)
    policy = make_policy(share_by="turns")
    control = control_number()
    assert named(accepted(acme).job) == (policy, control)
    tenant_weight(tenant_id=acme.tenant_id, weight=3, **WHO)
    assert named(accepted(acme).job) == (policy, control + 1)


def named(job: Job) -> tuple[int, int]:
    made = Decision.objects.get(job=job)
    return made.policy, made.control


@pytest.mark.parametrize("scope", ["tenant", "workspace", "workflow", "user"])
def test_default_caps_hold_whoever_has_none_of_their_own(
    desk: Desk, pool: Pool, scope: str
) -> None:
    make_policy(default_caps={scope: 2})
    acme, beta = make_tenant("acme", pool), make_tenant("beta", pool)
    mine, theirs = (
        [one.job for one in submit_all(space, [asked()] * 3, submitted_by=who)]
        for space, who in ((acme, "ann"), (beta, "bob"))
    )
    first = {str(job.id) for job in (*mine[:2], *theirs[:2])}
    assert set(desk.turn()) == first
    desk.finish(jobs=[mine[0]])
    assert desk.turn() == [str(mine[2].id)]


def test_a_cap_of_its_own_stands_above_the_default(desk: Desk, pool: Pool) -> None:
    acme = make_tenant("acme", pool)
    acme.tenant.max_running = 3
    acme.tenant.save()
    make_policy(default_caps={"tenant": 1})
    submit(acme, 5)
    assert len(desk.turn()) == 3


def test_what_left_while_the_policy_changed_is_not_shown_as_waiting(
    desk: Desk, closed: Pool
) -> None:
    first, second = submit(make_tenant("acme", closed), 2)
    assert desk.turn() == [str(first.id)]
    assert published(desk, closed).total == 1
    desk.finish()
    desk.leader._take_up()
    assert desk.leader._place()
    make_policy()
    desk.leader._take_up()
    publisher = desk.leader.publisher
    publisher._freshen(desk.leader.book, time.time())
    header = read_header(valkey_client(), str(closed.id))
    assert header is not None
    assert header.gone == bytes.fromhex(str(second.id).replace("-", ""))


@pytest.mark.slow
def test_a_large_backlog_stands_in_the_published_order_of_each_new_policy(
    desk: Desk, closed: Pool
) -> None:
    pool_dial(pool_id=closed.id, budget=3, reserve=0, **WHO)
    tenants = [make_tenant(f"t{n}", closed, cost=1 + n % 3) for n in range(50)]
    for n, space in enumerate(tenants):
        submit(space, MANY // 50, job_class=("normal", "batch", "critical")[n % 3])
    desk.turn()
    settled_header(desk, closed, desk.leader.book.config.policy.number)
    for top in ("batch", "critical", "normal"):
        names = [top, *(name for name in ("batch", "critical", "normal") if name != top)]
        share_by = "turns" if top == "batch" else "cost_time"
        number = make_policy(share_by=share_by, classes=[{"name": name} for name in names])
        header = settled_header(desk, closed, number)
        rows = read_rows(valkey_client(), header)
        assert rows is not None
        assert len(rows) == Job.objects.filter(state="queued").count() >= MANY - 3
        shown = [header.classes[one] for one in rows["job_class"].tolist()]
        assert shown == sorted(shown, key=names.index)


def settled_header(desk: Desk, pool: Pool, policy: int) -> Any:
    """Turn as the loop does until the published order is made under that policy."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        desk.leader.turn()
        header = read_header(valkey_client(), str(pool.id))
        if header is not None and header.policy == policy and header.total:
            return header
        time.sleep(0.01)
    raise AssertionError("no order was published")

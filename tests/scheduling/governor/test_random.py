"""Random interleavings of everything that can happen to jobs keep the invariants."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from billing.models import LedgerEntry, Reservation
from billing.services.checks import balances_differ
from scheduling.controls.pools import pool_dial
from scheduling.core.states import ENDED_JOBS
from scheduling.executors.contract import ErrorClass
from scheduling.models import Attempt, Circuit, Job, Pool
from scheduling.models.attempt import LIVE
from scheduling.models.xact import CurrentXact
from scheduling.services.cancel import JobEnded, job_cancel
from scheduling.services.readmission import jobs_readmit
from tenants.controls import tenant_weight
from tenants.models import Workspace
from tests.scheduling.factories import (
    WHO,
    claim,
    done,
    failed,
    make_budget,
    make_policy,
    make_tenant,
    settle,
    submit,
)
from tests.scheduling.governor.desk import Desk

ENDS = (
    done(output_total=700),
    done(output_total=2_000_000),
    failed(ErrorClass.PROVIDER_ERROR, output_total=5),
    failed(ErrorClass.UNREACHABLE),
    failed(ErrorClass.INVALID_REQUEST),
    failed(ErrorClass.CANCELED),
    None,
)


class Play:
    """A world in which steps are drawn by lot; `check` holds what must always be so."""

    def __init__(self, desk: Desk, pool: Pool, seed: int) -> None:
        self.dice = random.Random(seed)
        self.desk, self.pool = desk, pool
        self.spaces = [
            make_tenant(f"t{n}", pool, weight=n, cost=n, expected_s=1.0) for n in (1, 2, 3)
        ]
        make_budget(self.spaces[0], "6")
        make_budget(self.spaces[1], "40", window="day")
        self.budget = pool.budget
        self.most = pool.budget
        self.steps: tuple[tuple[int, Callable[[], Any]], ...] = (
            (6, self.submit), (2, self.cancel), (2, self.pause), (1, self.weigh), (1, self.dial),
            (12, self.turn), (8, self.claim), (8, self.settle), (2, self.settle_again),
            (2, self.wake), (2, self.readmit), (1, self.restart), (1, self.crash),
        )  # fmt: skip

    def step(self) -> None:
        weights = [weight for weight, _ in self.steps]
        self.dice.choices([step for _, step in self.steps], weights)[0]()

    def pick(self, rows: Any, most: int = 1) -> list[Any]:
        found = list(rows.order_by("id"))
        return self.dice.sample(found, min(len(found), most))

    def submit(self) -> None:
        space: Workspace = self.dice.choice(self.spaces)
        submit(
            space,
            self.dice.randint(1, 4),
            cost=self.dice.choice([None, None, 1, 4]),
            job_class=self.dice.choice(["", "", "batch", "critical"]),
            idempotent=self.dice.random() < 0.8,
            paused=self.dice.random() < 0.1,
        )

    def cancel(self) -> None:
        for job in self.pick(Job.objects.all()):
            try:
                job_cancel(job_id=job.id, now=timezone.now(), **WHO)
            except JobEnded:
                assert job.state in ENDED_JOBS

    def pause(self) -> None:
        for job in self.pick(Job.objects.filter(state__in=["queued", "waiting", "deferred"])):
            Job.objects.filter(id=job.id).update(paused=not job.paused, changed=CurrentXact())

    def weigh(self) -> None:
        space = self.dice.choice(self.spaces)
        tenant_weight(tenant_id=space.tenant_id, weight=self.dice.randint(0, 3), **WHO)

    def dial(self) -> None:
        self.budget = self.dice.randint(4, 12)
        pool_dial(pool_id=self.pool.id, budget=self.budget, reserve=0, **WHO)

    def turn(self) -> None:
        before = self.in_use()
        self.desk.turn()
        assert self.in_use() <= max(before, self.budget)
        state = self.desk.state(self.pool)
        live = Attempt.objects.filter(state__in=LIVE)
        assert set(state.live) == {str(one.job_id) for one in live}

    def claim(self) -> None:
        claim(self.desk.worker, self.pick(Attempt.objects.filter(state="dispatched"), 4))

    def settle(self) -> None:
        rows = self.pick(Attempt.objects.filter(state__in=["running", "stopping"]), 3)
        settle(rows, self.dice.choice(ENDS))

    def settle_again(self) -> None:
        rows = self.pick(Attempt.objects.filter(state__in=["complete", "error"]), 3)
        assert settle(rows, done()).settled == 0

    def wake(self) -> None:
        past = timezone.now() - timedelta(seconds=1)
        Job.objects.filter(state="waiting").update(wake_at=past)
        self.desk.leader._wake()

    def readmit(self) -> None:
        jobs_readmit(now=timezone.now())

    def restart(self) -> None:
        self.desk.restart()

    def crash(self) -> None:
        self.desk.restart(give_up=False)

    def in_use(self) -> int:
        return sum(Attempt.objects.filter(state__in=LIVE).values_list("cost", flat=True))

    def check(self) -> None:
        live = Attempt.objects.filter(state__in=LIVE).values_list("job_id", flat=True)
        assert Counter(live) == Counter(
            Job.objects.filter(state="running").values_list("id", flat=True)
        )
        assert balances_differ() == []
        ended = Job.objects.filter(state__in=ENDED_JOBS).values_list("id", flat=True)
        assert not Reservation.objects.filter(state="open", job_id__in=ended).exists()

    def drain(self) -> None:
        """Let everything come to its end."""
        for space in self.spaces:
            tenant_weight(tenant_id=space.tenant_id, weight=1, **WHO)
        pool_dial(pool_id=self.pool.id, budget=12, reserve=0, **WHO)
        Job.objects.filter(paused=True).update(paused=False, changed=CurrentXact())
        for _ in range(200):
            Circuit.objects.update(state="closed", failures=0, until=None)
            self.desk.leader._reconfigure()
            self.wake()
            self.readmit()
            self.desk.turn()
            if not Job.objects.exclude(state__in=ENDED_JOBS).exclude(state="deferred").exists():
                break
            self.desk.finish(done(output_total=1))


@pytest.mark.parametrize("seed", range(5))
def test_random_steps_keep_the_invariants_and_every_job_ends_once(
    desk: Desk, pool: Pool, seed: int
) -> None:
    make_policy(share_by=["turns", "cost", "tokens", "cost_time", "cost"][seed])
    play = Play(desk, pool, seed)
    for number in range(90):
        play.step()
        if number % 10 == 0:
            play.check()
    play.drain()
    play.check()
    left = Job.objects.exclude(state__in=ENDED_JOBS)
    assert {job.reason for job in left} <= {"budget"}
    assert not Attempt.objects.filter(state__in=LIVE).exists()
    assert not desk.state(pool).live
    assert set(desk.leader.book.rows) == {str(job.id) for job in left}
    markers = LedgerEntry.objects.filter(meter="worker_seconds", source_event="attempt")
    claimed = Attempt.objects.filter(started_at__isnull=False).values_list("id", flat=True)
    assert Counter(markers.values_list("attempt_id", flat=True)) == Counter(claimed)
    ends = Job.objects.filter(state="done").values_list("id", flat=True)
    complete = Attempt.objects.filter(state="complete", job__state="done")
    assert Counter(complete.values_list("job_id", flat=True)) == Counter(ends)

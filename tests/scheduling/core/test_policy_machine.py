"""Any sequence of changes and cycles leaves the pool's sums equal to those of its live jobs."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduling.core.capacity.room import never_fits
from scheduling.core.policy.cycle import cycle, waits
from scheduling.core.policy.settings import Backfill, Policy
from scheduling.core.types import Pool, Reason
from tests.scheduling.core.pools import make_executor, make_job, make_state

KEY, LOCK = ("user", "u"), ("key", "k")
CLASSES = ["incident", "normal", "batch"]


class PoolMachine(RuleBasedStateMachine):
    """Drives one pool by everything that can happen to it."""

    def __init__(self):
        super().__init__()
        executors = [
            make_executor("x", 2, ["m"], seats=3),
            make_executor("y", 1, ["m", "n"], seats=4),
        ]
        self.state = make_state(
            6,
            1,
            executors=executors,
            caps={KEY: 2, LOCK: 1},
            policy=Policy(backfill=Backfill.EASY, age_after=50.0),
        )
        self.now, self.made, self.waiting, self.last = 0.0, 0, {}, []

    @rule(
        cost=st.integers(1, 8),
        tenant=st.sampled_from("ab"),
        class_name=st.sampled_from(CLASSES),
        model=st.sampled_from(["", "m", "n", "none"]),
        limited=st.booleans(),
        locked=st.booleans(),
        by_worker=st.booleans(),
    )
    def submit(self, cost, tenant, class_name, model, limited, locked, by_worker):
        self.made += 1
        job = make_job(
            f"j{self.made}",
            cost,
            tenant=tenant,
            class_name=class_name,
            model=model,
            submitted_at=self.now,
            workflow="w" if limited else "",
            limits=(KEY,) if limited else (),
            shared=(LOCK,) if locked else (),
            expected_s=float(cost),
            by_worker=by_worker,
        )
        self.waiting[job.id] = job
        self.state.wait(job)

    @rule(step=st.sampled_from([0.5, 5.0, 60.0]))
    def go_on(self, step):
        self.now += step
        self.last = cycle(self.state, self.now)
        for placement in self.last:
            del self.waiting[placement.spot.job.id]

    @precondition(lambda self: self.last)
    @rule()
    def refuse_the_last_placement(self):
        placement = self.last.pop()
        if placement.spot.job.id in self.state.live:
            self.state.undo(placement)

    @precondition(lambda self: self.state.live)
    @rule(data=st.data())
    def finish(self, data):
        job_id = data.draw(st.sampled_from(sorted(self.state.live)))
        assert self.state.end(job_id).job_id == job_id
        self.last = []

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data):
        job_id = data.draw(st.sampled_from(sorted(self.waiting)))
        assert self.state.leave(job_id).id == self.waiting.pop(job_id).id

    @rule(budget=st.integers(1, 8))
    def turn_the_dial(self, budget):
        self.state.set_pool(Pool(id="p", budget=budget, reserve=1))

    @rule(tenant=st.sampled_from("ab"), cost=st.integers(1, 8))
    def recost(self, tenant, cost):
        self.state.recost(tenant, "w", cost)
        self.last = []

    @rule(tenant=st.sampled_from("ab"), hold=st.booleans())
    def hold_or_unhold(self, tenant, hold):
        (self.state.hold if hold else self.state.unhold)(tenant)

    @rule(cap=st.integers(0, 3))
    def set_cap(self, cap):
        self.state.limits.set_caps({KEY: cap, LOCK: 1})

    @invariant()
    def sums_are_those_of_the_live_jobs(self):
        state, live = self.state, list(self.state.live.values())
        assert state.use.reserved == sum(one.cost for one in live if one.class_name == "incident")
        assert state.use.total == sum(one.cost for one in live)
        assert +Counter(state.busy) == Counter(one.executor for one in live)
        assert +Counter(state.manned) == Counter(one.executor for one in live if one.by_worker)
        for one in state.executors.values():
            assert state.busy.get(one.id, 0) <= one.most
            assert state.manned.get(one.id, 0) <= one.slots
        counts = Counter(key for one in live for key in (*one.limits, *one.shared))
        assert state.limits.counts == counts

    @invariant()
    def every_waiting_job_is_in_one_place(self):
        state = self.state
        assert len(state.order) + len(state.never_fits) == len(self.waiting)
        for job_id in self.waiting:
            job = state.order.get(job_id) or state.never_fits[job_id]
            incident = job.class_name == "incident"
            assert never_fits(job.cost, state.pool, uses_reserve=incident) == (
                job_id in state.never_fits
            )

    @invariant()
    def every_waiting_job_has_a_reason_that_changes_nothing(self):
        before = self.state.use.total
        told = waits(self.state, self.now, 1000)
        assert set(told) == set(self.waiting)
        assert self.state.use.total == before

    @rule()
    def nothing_startable_is_left_by_a_cycle(self):
        self.go_on(0.0)
        assert Reason.STARTS_NOW not in waits(self.state, self.now, 1000).values()


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)

"""In every history no cap and no rate is exceeded, nothing leaks, and an own limit delays nobody."""

from collections import Counter
from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduling.core.policy.cycle import cycle, waits
from scheduling.core.policy.limits import KEY_CAP, Limits
from scheduling.core.policy.state import PoolState
from scheduling.core.policy.windows import SPAN_S, Dispatched, Rate, rate_keys
from scheduling.core.types import GLOBAL, Pool, Reason
from tests.scheduling.core.pools import make_executor, make_job, make_order, make_state

POOLS = ("one", "two")
CAPS = {GLOBAL: 5, ("pool", "one"): 3, ("provider", "p"): 3, ("user", "ann"): 2}
RATES = {
    ("tenant", "a"): Rate(requests=3, tokens=20),
    ("provider", "p"): Rate(requests=4, tokens=30),
    ("provider", "q"): Rate(tokens=25),
}


def pool_of(name, limits, policy):
    executors = [
        make_executor(f"{name}-x", 3, ["m"], provider="p"),
        make_executor(f"{name}-y", 2, ["m", "n"], provider="q"),
        make_executor(f"{name}-z", 2, ["n"]),
    ]
    return PoolState(
        pool=Pool(id=name, budget=6),
        policy=policy,
        order=make_order(policy),
        executors={one.id: one for one in executors},
        limits=limits,
    )


class LimitsMachine(RuleBasedStateMachine):
    """Drives two pools that share one book of limits by everything that can happen to them."""

    def __init__(self):
        super().__init__()
        self.limits = Limits(CAPS, defaults=KEY_CAP)
        self.limits.set_rates(RATES)
        policy = make_state().policy
        self.states = {name: pool_of(name, self.limits, policy) for name in POOLS}
        self.now, self.made, self.waiting = 0.0, 0, set()
        self.log, self.last = [], []

    @rule(
        pool=st.sampled_from(POOLS),
        tenant=st.sampled_from("abc"),
        model=st.sampled_from(["", "m", "n"]),
        tokens=st.integers(0, 28),
        user=st.sampled_from(["ann", "bob"]),
        keyed=st.booleans(),
        class_name=st.sampled_from(["incident", "normal", "batch"]),
    )
    def submit(self, pool, tenant, model, tokens, user, keyed, class_name):
        self.made += 1
        shared = (GLOBAL, ("pool", pool), *((("key", "repo"),) if keyed else ()))
        job = make_job(
            f"{pool}-{self.made}",
            1 + self.made % 2,
            tenant=tenant,
            model=model,
            tokens=tokens,
            class_name=class_name,
            submitted_at=self.now,
            limits=(("tenant", tenant), ("user", user)),
            shared=shared,
        )
        self.waiting.add(job.id)
        self.states[pool].wait(job)

    @rule(step=st.sampled_from([0.0, 0.5, 7.0, 31.0, 60.0]))
    def go_on(self, step):
        self.now += step
        self.last = []
        for state in self.states.values():
            for placement in cycle(state, self.now):
                self.waiting.remove(placement.spot.job.id)
                provider = state.executors[placement.executor].provider
                job = placement.spot.job
                self.log.append((self.now, job.id, rate_keys(job.tenant, provider), job.tokens))
                self.last.append((state, placement))

    @rule()
    def after_a_cycle_nothing_is_startable(self):
        self.go_on(0.0)
        for state in self.states.values():
            assert Reason.STARTS_NOW not in waits(state, self.now, 1000).values()

    @precondition(lambda self: self.last)
    @rule()
    def refuse_the_last_placement(self):
        state, placement = self.last.pop()
        job = placement.spot.job
        if job.id in state.live:
            state.undo(placement)
            self.log = [one for one in self.log if one[1] != job.id]
            state.wait(job)
            self.waiting.add(job.id)

    @rule(data=st.data())
    def finish(self, data):
        live = sorted((name, one) for name, state in self.states.items() for one in state.live)
        if live:
            name, job_id = data.draw(st.sampled_from(live))
            self.states[name].end(job_id)

    @rule(data=st.data())
    def cancel(self, data):
        if self.waiting:
            job_id = data.draw(st.sampled_from(sorted(self.waiting)))
            self.waiting.remove(job_id)
            assert self.states[job_id.split("-")[0]].leave(job_id).id == job_id

    @rule()
    def begin_anew_from_the_log(self):
        recent = [
            Dispatched(at, keys[0][1], keys[1][1], tokens)
            for at, _, keys, tokens in self.log
            if at + SPAN_S > self.now
        ]
        self.limits.set_caps(CAPS)
        self.limits.set_rates(RATES, recent)

    @invariant()
    def no_cap_is_exceeded_and_no_count_leaks(self):
        live = [one for state in self.states.values() for one in state.live.values()]
        counts = Counter(key for one in live for key in (*one.limits, *one.shared))
        assert self.limits.counts == counts
        assert all(counts[key] <= cap for key, cap in {**CAPS, ("key", "repo"): 1}.items())
        keyed = {("key", "repo"): 1} if counts["key", "repo"] else {}
        assert self.limits.caps == {**CAPS, **keyed}

    @invariant()
    def no_minute_holds_more_than_its_rate(self):
        for key, rate in RATES.items():
            mine = [(at, tokens) for at, _, keys, tokens in self.log if key in keys]
            for begins, _ in mine:
                held = [tokens for at, tokens in mine if begins <= at < begins + SPAN_S]
                assert rate.requests is None or len(held) <= rate.requests
                assert sum(held) <= rate.tokens or sum(one > 0 for one in held) == 1

    @invariant()
    def windows_hold_what_the_last_minute_saw(self):
        for key, window in self.limits.windows.items():
            mine = [
                tokens for at, _, keys, tokens in self.log if key in keys and at + SPAN_S > self.now
            ]
            assert window.used(self.now) == (len(mine), sum(mine))


TestLimits = LimitsMachine.TestCase
TestLimits.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


@st.composite
def backlogs(draw):
    return [
        make_job(
            f"{tenant}{number}",
            draw(st.integers(1, 2)),
            tenant=tenant,
            tokens=draw(st.integers(1, 9)),
            submitted_at=float(draw(st.integers(0, 5))),
            class_name=draw(st.sampled_from(["normal", "batch"])),
        )
        for number, tenant in enumerate(draw(st.lists(st.sampled_from("abc"), max_size=12)))
    ]


@given(backlogs(), st.integers(1, 8), st.booleans())
def test_a_job_that_waits_by_its_own_limit_delays_nobody(jobs, budget, by_rate):
    """The other tenants' jobs start as if those that wait were not there."""

    def placements(backlog):
        state = make_state(budget, executors=[make_executor("x", 4, provider="p")])
        state.limits.set_caps({} if by_rate else {("tenant", "a"): 0})
        state.limits.set_rates({("tenant", "a"): Rate(tokens=10)} if by_rate else {})
        state.limits.spend([("tenant", "a")], 10, 0.0)
        for job in backlog:
            state.wait(job)
        found = []
        for now in (1.0, 2.0, 3.0):
            placed = cycle(state, now)
            found.append([one.spot.job.id for one in placed])
            for one in placed[:1]:
                state.end(one.spot.job.id)
        return found

    assert placements(jobs) == placements([job for job in jobs if job.tenant != "a"])


@given(backlogs())
def test_with_a_full_provider_window_no_job_behind_passes_one_that_waits_for_it(jobs):
    state = make_state(99, executors=[make_executor("x", 99, provider="p")])
    state.limits.set_rates({("provider", "p"): Rate(tokens=12)})
    for job in jobs:
        state.wait(job)
    order = [(spot.class_name, spot.job.id) for spot in state.order.walk_all()]
    placed = {one.spot.job.id for one in cycle(state, 0.0)}
    started = [job_id in placed for _, job_id in order]
    assert [here for here, _ in groupby(started)] in ([], [True], [True, False])

"""The laws of the fair order, each as a property."""

from collections import Counter
from fractions import Fraction
from math import ceil

import hypothesis.strategies as st
from hypothesis import given, settings
from msgspec.structs import replace

from scheduling.core.order.full import ordered
from scheduling.core.order.order import Order
from scheduling.core.types import ClassRule, Job
from tests.scheduling.core.order_cases import NORMAL, filled, job
from tests.scheduling.core.order_reference import Reference

quick = settings(max_examples=100, deadline=None)

CLASSES = (
    ClassRule(name="critical"),
    ClassRule(name="lane", fifo=True),
    ClassRule(name="normal"),
)
WEIGHTS = st.dictionaries(st.sampled_from(["A", "B", "C", "D"]), st.integers(1, 4))
WORKSPACE_WEIGHTS = st.dictionaries(st.sampled_from(["A0", "A1", "B1"]), st.integers(1, 3))


@st.composite
def pools(draw):
    """Jobs of some tenants and workspaces, with many equal times."""
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["A", "B", "C", "D"]),
                st.integers(0, 1),
                st.integers(0, 3),
                st.integers(1, 5),
                st.sampled_from(["normal", "normal", "critical", "lane"]),
                st.sampled_from([None, 1.0, 2.0]),
            ),
            max_size=25,
        )
    )
    return [
        Job(
            id=f"j{seq}",
            seq=seq,
            tenant=tenant,
            workspace=f"{tenant}{workspace}",
            submitted_at=float(at),
            class_name=class_name,
            charge=charge,
            deadline=deadline,
        )
        for seq, (tenant, workspace, at, charge, class_name, deadline) in enumerate(rows)
    ]


def plain_order(jobs, weights, *, deadlines):
    """The order by the reference."""
    plain = Reference(classes=CLASSES, weights=weights, deadlines=deadlines)
    for each in jobs:
        plain.add(each)
    return plain.order()


@quick
@given(pools(), WEIGHTS, WORKSPACE_WEIGHTS, st.booleans(), st.randoms(use_true_random=False))
def test_walk_full_pass_drain_and_rebuild_all_give_the_rules_order(
    jobs, weights, workspace_weights, deadlines, dice
):
    expected = plain_order(jobs, weights | workspace_weights, deadlines=deadlines)
    dice.shuffle(jobs)
    rules = {
        "weights": weights,
        "workspace_weights": workspace_weights,
        "deadlines": deadlines,
        "age_after": 0,
    }
    order = filled(jobs, CLASSES, **rules)
    assert list(order.walk_all()) == expected
    assert ordered(order) == expected
    memory = order.memory_changes()
    drained = []
    left = list(jobs)
    while left:
        dice.shuffle(left)
        rebuilt = Order(classes=CLASSES, memory=memory, **rules)
        rebuilt.load(left, 0.0)
        spot = next(rebuilt.walk_all())
        assert next(order.walk_all()) == spot
        assert order.place(spot, 0.0) == rebuilt.place(spot, 0.0)
        memory |= rebuilt.memory_changes()
        drained.append(spot)
        left = [each for each in left if each.id != spot.job.id]
    assert drained == expected


def endless(tenants, charges, workspaces):
    """A long backlog of each tenant, its charges and workspaces repeating as told."""
    jobs: list[Job] = []
    for n in range(16):
        for tenant, cycle in zip(tenants, charges, strict=True):
            name = f"{tenant}{workspaces[n % len(workspaces)]}"
            one = job(f"{tenant}.{n}", len(jobs), tenant, workspace=name)
            jobs.append(replace(one, charge=cycle[n % len(cycle)]))
    return jobs


CYCLES = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=3, max_size=3)
THREE_WEIGHTS = st.lists(st.integers(1, 4), min_size=3, max_size=3)


def waiting(order, level, names):
    """How many startable jobs each of these tenants or workspaces has."""
    jobs = Counter(getattr(each, level) for each, _ in order.startable())
    return [jobs[name] for name in names]


def check_shares(served, weights, most):
    """Law 2 for every pair, with `served` the charge of each and `most` its largest charge."""
    for u in weights:
        for v in weights:
            ahead = Fraction(served[u], weights[u]) - Fraction(served[v], weights[v])
            assert ahead < 1 + Fraction(most[u], weights[u]), (u, v, served)


@quick
@given(CYCLES, THREE_WEIGHTS, st.lists(st.integers(0, 1), min_size=1, max_size=5))
def test_backlogged_tenants_are_served_by_weight(cycles, weights, workspaces):
    tenants = ["A", "B", "C"]
    share = dict(zip(tenants, weights, strict=True))
    most = {tenant: max(cycle) for tenant, cycle in zip(tenants, cycles, strict=True)}
    order = filled(endless(tenants, cycles, workspaces), weights=share)
    served: Counter[str] = Counter()
    between: dict[str, tuple[int, Counter[str]]] = {}
    while min(waiting(order, "tenant", share)):
        spot = order.head("normal")
        order.place(spot, 0.0)
        tenant, charge = spot.job.tenant, spot.job.charge
        served[tenant] += charge
        check_shares(served, share, most)
        for other, (last, counted) in between.items():
            if other != tenant:
                counted[tenant] += charge
                turns = ceil(Fraction(last, share[other])) + 1
                assert counted[tenant] <= turns * share[tenant] + most[tenant] - 1
        between[tenant] = (charge, Counter())


@quick
@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=2, max_size=2),
    st.lists(st.integers(1, 3), min_size=2, max_size=2),
    st.integers(0, 2),
)
def test_backlogged_workspaces_of_a_tenant_are_served_by_weight(cycles, weights, others):
    jobs: list[Job] = []
    for n in range(20):
        for workspace, cycle in zip(["x", "y"], cycles, strict=True):
            one = job(f"{workspace}{n}", len(jobs), "A", workspace=workspace)
            jobs.append(replace(one, charge=cycle[n % len(cycle)]))
        for other in range(others):
            jobs.append(job(f"B{n}.{other}", len(jobs), "B"))
    share = dict(zip(["x", "y"], weights, strict=True))
    most = {name: max(cycle) for name, cycle in zip(["x", "y"], cycles, strict=True)}
    order = filled(jobs, workspace_weights=share)
    served: Counter[str] = Counter()
    while min(waiting(order, "workspace", share)):
        spot = order.head("normal")
        order.place(spot, 0.0)
        if spot.job.workspace in share:
            served[spot.job.workspace] += spot.job.charge
        check_shares(served, share, most)


class Levers:
    """Three tenants under every lever, with what each of them may be behind or ahead by."""

    TENANTS = ("A", "B", "C")

    def __init__(self):
        self.order = Order(classes=NORMAL, age_after=0)
        self.seq = 0
        self.weights = dict.fromkeys(self.TENANTS, 1)
        self.owed = dict.fromkeys(self.TENANTS, Fraction(0))
        self.ahead = dict.fromkeys(self.TENANTS, Fraction(0))
        self.placed = []
        self.was = dict.fromkeys(self.TENANTS, False)

    def memory(self, tenant):
        return self.order.memory(("normal", tenant, None))

    def position(self, tenant):
        memory = self.memory(tenant)
        return memory.turn + Fraction(memory.used, self.weights[tenant])

    def submit(self, tenant, charge):
        self.seq += 1
        self.order.add(replace(job(f"j{self.seq}", self.seq, tenant), charge=charge))

    def idle(self, tenant, _):
        for each in [each for each, _ in self.order.startable() if each.tenant == tenant]:
            self.order.remove(each.id)

    def hold(self, tenant, _):
        self.order.block(("tenant", tenant), "hold")

    def unhold(self, tenant, _):
        self.order.unblock(("tenant", tenant), "hold")

    def weigh(self, tenant, weight):
        self.order.set_weight(tenant, weight)
        self.weights[tenant] = weight

    def serve(self, _, count):
        for _ in range(count):
            spot = self.order.head("normal")
            if spot is not None:
                tenant = spot.job.tenant
                self.placed.append((spot, *self.order.place(spot, 0.0)))
                reach = 1 + Fraction(spot.job.charge, self.weights[tenant])
                self.ahead[tenant] = max(self.ahead[tenant], reach)

    def correct(self, _, tenths):
        """Charge the oldest placement anew, as if it had cost so many fifths of its estimate."""
        if not self.placed:
            return
        spot, *lifts = self.placed.pop(0)
        tenant = spot.job.tenant
        delta = spot.job.charge * tenths // 5 - spot.job.charge
        before = self.position(tenant)
        self.order.correct("normal", tenant, spot.job.workspace, delta, *lifts)
        moved = self.position(tenant) - before
        self.owed[tenant] += max(0, -moved)
        self.ahead[tenant] += max(0, moved)

    def settle(self):
        """Nothing is owed to a line that has just become backlogged."""
        for tenant in self.TENANTS:
            now = self.memory(tenant).backlogged
            if now and not self.was[tenant]:
                self.owed[tenant] = Fraction(0)
            self.was[tenant] = now

    def check(self):
        """No backlogged line is further behind or ahead than services and refunds explain."""
        top = self.order.memory(("normal", None, None)).top
        for tenant in self.TENANTS:
            if self.memory(tenant).backlogged:
                assert self.position(tenant) >= top - self.owed[tenant]
            assert self.position(tenant) <= top + self.ahead[tenant]


STEPS = st.tuples(
    st.sampled_from(["submit", "submit", "idle", "hold", "unhold", "weigh", "serve", "correct"]),
    st.sampled_from(Levers.TENANTS),
    st.integers(1, 6),
)


def run(steps):
    """The levers after these steps, checked after each."""
    levers = Levers()
    for name, tenant, number in steps:
        getattr(levers, name)(tenant, number)
        levers.settle()
        levers.check()
    return levers


@quick
@given(st.lists(STEPS, max_size=40))
def test_no_lever_no_idle_time_and_no_correction_gives_a_burst(steps):
    levers = run(steps)
    for tenant in Levers.TENANTS:
        levers.unhold(tenant, 0)
        for charge in [1, 4, 2] * 5:
            levers.submit(tenant, charge)
    levers.settle()
    levers.check()
    start = {tenant: levers.position(tenant) for tenant in Levers.TENANTS}
    levers.placed.clear()
    served: Counter[str] = Counter()
    while min(waiting(levers.order, "tenant", start)):
        levers.serve("", 1)
        spot = levers.placed[-1][0]
        served[spot.job.tenant] += spot.job.charge
        check_shares_from(served, levers.weights, start)


def check_shares_from(served, weights, start):
    """Law 2 from an instant on: what one had been served ahead of the other by then counts."""
    for u in weights:
        for v in weights:
            ahead = Fraction(served[u], weights[u]) - Fraction(served[v], weights[v])
            bound = 1 + Fraction(6, weights[u]) + start[v] - start[u]
            assert ahead < bound or not served[u], (u, v)


@quick
@given(st.lists(STEPS, max_size=40), st.sampled_from(Levers.TENANTS))
def test_hold_and_unhold_never_move_a_tenant_forward(steps, tenant):
    levers = run(steps)
    before = levers.position(tenant)
    levers.hold(tenant, 0)
    levers.unhold(tenant, 0)
    assert levers.position(tenant) >= before

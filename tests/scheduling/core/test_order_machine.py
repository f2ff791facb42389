"""The incremental order and the plain reference, driven side by side."""

from itertools import count

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from scheduling.core.order.full import ordered
from scheduling.core.order.order import Order
from scheduling.core.types import ClassRule, Job
from tests.scheduling.core.order_reference import Reference

CLASSES = (
    ClassRule(name="top"),
    ClassRule(name="lane", fifo=True),
    ClassRule(name="mid", ages_to="top"),
    ClassRule(name="low", ages_to="top"),
)
TENANTS = st.sampled_from(["A", "B", "C"])
WORKSPACES = st.sampled_from(["1", "2"])
LIMITS = st.sampled_from([(), (("workflow", "x"),), (("workflow", "x"), ("user", "u"))])
KEYS = st.one_of(
    st.tuples(st.just("tenant"), TENANTS),
    st.tuples(st.just("workspace"), st.sampled_from(["A1", "B2"])),
    st.sampled_from([("workflow", "x"), ("user", "u")]),
)
WHYS = st.sampled_from(["hold", "limit"])


class OrderMachine(RuleBasedStateMachine):
    """After every change both must show the same jobs, turns, classes and memory."""

    @initialize(
        deadlines=st.booleans(),
        age_after=st.sampled_from([0, 10]),
        limit=st.integers(1, 3),
        weights=st.fixed_dictionaries({name: st.integers(1, 3) for name in ["A", "B"]}),
        workspace_weights=st.fixed_dictionaries({"A1": st.integers(1, 3)}),
    )
    def begin(self, deadlines, age_after, limit, weights, workspace_weights):
        rules = {"age_after": age_after, "age_limit": limit, "deadlines": deadlines}
        self.order = Order(
            classes=CLASSES, weights=weights, workspace_weights=workspace_weights, **rules
        )
        self.plain = Reference(classes=CLASSES, weights=weights | workspace_weights, **rules)
        self.now = 0.0
        self.seqs = count()
        self.placed = []

    def both(self, name, *args):
        answers = [getattr(side, name)(*args) for side in (self.order, self.plain)]
        for side in (self.order, self.plain):
            side.advance(self.now)
        return answers

    @rule(
        tenant=TENANTS,
        workspace=WORKSPACES,
        limits=LIMITS,
        class_name=st.sampled_from([rule.name for rule in CLASSES]),
        charge=st.integers(1, 4),
        late=st.sampled_from([0, 0, 5, 25]),
        deadline=st.sampled_from([None, 3.0, 9.0]),
    )
    def add(self, tenant, workspace, limits, class_name, charge, late, deadline):
        seq = next(self.seqs)
        job = Job(
            id=f"j{seq}",
            seq=seq,
            tenant=tenant,
            workspace=tenant + workspace,
            submitted_at=self.now - late,
            class_name=class_name,
            charge=charge,
            deadline=deadline,
            limits=limits,
        )
        self.both("add", job)

    def some_job(self, data):
        return data.draw(st.sampled_from(sorted(self.plain.jobs)))

    @precondition(lambda self: self.plain.jobs)
    @rule(data=st.data())
    def remove(self, data):
        self.both("remove", self.some_job(data))

    @precondition(lambda self: self.plain.jobs)
    @rule(data=st.data(), charge=st.integers(1, 4), deadline=st.sampled_from([None, 1.0]))
    def replace(self, data, charge, deadline):
        job = self.plain.jobs[self.some_job(data)]
        self.both("replace", replace(job, charge=charge, deadline=deadline))

    @rule(key=KEYS, why=WHYS)
    def block(self, key, why):
        self.both("block", key, why)

    @precondition(lambda self: self.plain.blocks)
    @rule(data=st.data())
    def unblock(self, data):
        self.both("unblock", *data.draw(st.sampled_from(sorted(self.plain.blocks))))

    @rule(tenant=TENANTS, weight=st.integers(1, 3))
    def weigh_tenant(self, tenant, weight):
        self.order.set_weight(tenant, weight)
        self.plain.set_weight(tenant, weight)

    @rule(workspace=st.sampled_from(["A1", "B2"]), weight=st.integers(1, 3))
    def weigh_workspace(self, workspace, weight):
        self.order.set_workspace_weight(workspace, weight)
        self.plain.set_weight(workspace, weight)

    def put(self, spot):
        mine, plain = self.both("place", spot, self.now)
        assert mine == plain
        self.placed.append((spot, *mine))

    @precondition(lambda self: self.plain.order())
    @rule()
    def place_head(self):
        self.put(self.plain.order()[0])

    @precondition(lambda self: self.plain.order())
    @rule(data=st.data())
    def place_behind_skipped_ones(self, data):
        self.put(data.draw(st.sampled_from(self.plain.order())))

    @precondition(lambda self: self.placed)
    @rule(data=st.data(), share=st.floats(-1, 2))
    def correct(self, data, share):
        index = data.draw(st.integers(0, len(self.placed) - 1))
        spot, lifts, workspace_lifts = self.placed.pop(index)
        job = spot.job
        delta = int(job.charge * share)
        where = spot.class_name, job.tenant, job.workspace
        self.both("correct", *where, delta, lifts, workspace_lifts)

    @rule(by=st.sampled_from([1, 5, 10, 25]))
    def pass_time(self, by):
        self.now += by
        self.order.advance(self.now)
        self.plain.advance(self.now)

    @precondition(lambda self: hasattr(self, "order"))
    @invariant()
    def same_order_and_memory(self):
        wanted = self.plain.order()
        assert list(self.order.walk_all()) == wanted
        assert ordered(self.order) == wanted
        assert len(self.order) == len(self.plain.jobs)
        startable = {job.id for job in self.plain.startable()}
        assert {job.id for job in self.order.blocked_jobs()} == set(self.plain.jobs) - startable
        for key, line in self.plain.memory.items():
            mine = self.order.memory(key)
            assert (mine.turn, mine.used, mine.lifts, mine.top, mine.last_placed_at) == (
                line.turn,
                line.used,
                line.lifts,
                line.top,
                line.last,
            ), key
            assert mine.backlogged == (key in self.plain.backlogged())

    @rule()
    def copy_all(self):
        """A copy shows the same and has nothing to save; the run goes on with the copy."""
        copy = self.order.first(1000)
        assert list(copy.walk_all()) == list(self.order.walk_all())
        assert not copy.memory_changes()
        assert all(copy.memory(key) == self.order.memory(key) for key in self.plain.memory)
        self.order = copy


TestOrderMachine = OrderMachine.TestCase
TestOrderMachine.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)

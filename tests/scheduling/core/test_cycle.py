from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.capacity.room import free_units
from scheduling.core.policy.cycle import cycle, run, waits
from scheduling.core.policy.settings import Backfill, Policy
from scheduling.core.types import ClassRule, Pool, Reason
from tests.scheduling.core.capacity_reference import first_startable
from tests.scheduling.core.pools import (
    make_executor,
    make_job,
    make_live,
    make_order,
    make_state,
)

NOW = 5000.0


def placed(state, now=0.0):
    return [placement.spot.job.id for placement in cycle(state, now)]


def test_jobs_that_weigh_more_than_one_unit_start_in_order_as_units_come_back():
    costs = {"a": 3, "b": 3, "c": 3, "d": 3, "e": 1, "f": 1}
    jobs = [make_job(name, cost) for name, cost in costs.items()]
    state = make_state(6, jobs=jobs)
    assert placed(state) == ["a", "b"]
    assert state.free("normal") == 0
    state.start(make_live(jobs[0]))  # the worker reports that it runs: counted once
    assert (state.free("normal"), placed(state)) == (0, [])
    state.end("a")
    assert placed(state) == ["c"]
    state.end("b")
    assert placed(state) == ["d"]
    state.end("c")
    state.end("d")
    assert placed(state) == ["e", "f"]
    assert state.end("e").cost == state.end("f").cost == 1
    assert (state.use.total, state.live, state.end("f")) == (0, {}, None)


def test_a_job_that_waits_for_a_full_executor_lets_jobs_for_an_idle_one_go_on():
    big, small = make_executor("x", 1, ["big"]), make_executor("y", 2, ["small"])
    running = make_live(make_job("j0", model="big"))
    jobs = [make_job(name, model=model) for name, model in (("j1", "big"), ("j2", "small"))]
    state = make_state(9, jobs=[*jobs, make_job("j3", model="small")], live=[running])
    state.set_executors({"x": big, "y": small})
    assert placed(state) == ["j2", "j3"]
    state.wait(make_job("j4", model="big"))
    state.end("j0")
    assert placed(state) == ["j1"]


def test_a_job_that_can_never_fit_is_not_the_head_and_stops_nobody():
    state = make_state(6, jobs=[make_job("j9", 9), make_job("j1")])
    assert placed(state) == ["j1"]
    assert waits(state, 0.0, 10) == {"j9": Reason.NEVER_FITS}


def test_a_cycle_places_by_class_and_keeps_the_reserve_for_incidents():
    jobs = [
        make_job("batch", class_name="batch"),
        make_job("normal", 2),
        make_job("expedite", 2, class_name="expedite"),
        make_job("incident", 1, class_name="incident"),
    ]
    state = make_state(6, 2, jobs=jobs)
    assert placed(state) == ["incident", "expedite", "normal"]
    state.wait(make_job("incident2", 1, class_name="incident"))
    assert waits(state, 0.0, 10)["batch"] is Reason.HEAD_WAITS_FOR_UNITS
    assert placed(state) == ["incident2"]


def test_after_a_general_stop_a_reserve_class_behind_still_gets_its_turn():
    names = {"normal": False, "batch": False, "incident": True}
    classes = tuple(ClassRule(name=name, uses_reserve=uses) for name, uses in names.items())
    jobs = [
        make_job("big", 3),
        make_job("small", class_name="batch"),
        make_job("fire", 2, class_name="incident"),
    ]
    live = [make_live(make_job("old"))]
    state = make_state(5, 2, jobs=jobs, policy=Policy(classes=classes), live=live)
    assert placed(state) == ["fire"]


def test_a_full_own_limit_takes_its_jobs_out_of_the_line_at_once():
    own = {"limits": (("user", "u"),)}
    jobs = [make_job("a1", **own), make_job("a2", **own), make_job("a3")]
    state = make_state(9, jobs=jobs, caps={("user", "u"): 1})
    assert placed(state) == ["a1", "a3"]
    assert waits(state, 0.0, 10) == {"a2": Reason.OWN_LIMIT}
    state.end("a1")
    assert placed(state) == ["a2"]


def test_two_pools_share_one_book_of_limits():
    own = {"limits": (("tenant", "a"),)}
    first = make_state(9, jobs=[make_job("p1", **own)], caps={("tenant", "a"): 1})
    second = make_state(9, jobs=[make_job("q1", **own)], limits=first.limits)
    assert placed(first) == ["p1"]
    assert placed(second) == []
    first.end("p1")
    assert placed(second) == ["q1"]


def test_a_concurrency_key_is_held_by_one_tenant_at_a_time():
    lock = {"shared": (("key", "deploy"),)}
    jobs = [make_job("a1", **lock), make_job("b1", tenant="b", **lock), make_job("b2", tenant="b")]
    state = make_state(9, jobs=jobs, caps={("key", "deploy"): 1})
    assert placed(state) == ["a1", "b2"]
    assert waits(state, 0.0, 10) == {"b1": Reason.SHARED_LIMIT}


def test_backfill_places_a_short_job_and_says_so():
    policy = Policy(backfill=Backfill.EASY)
    live = [make_live(make_job("old", 4, expected_s=100))]
    jobs = [make_job("head", 6), make_job("long", 2, expected_s=200), make_job("short", 1)]
    state = make_state(6, jobs=jobs, live=live, policy=policy)
    (only,) = cycle(state, 0.0)
    assert (only.spot.job.id, only.reason) == ("short", Reason.BACKFILLED)
    assert waits(state, 0.0, 1) == {"head": Reason.HEAD_WAITS_FOR_UNITS}


def test_every_waiting_job_is_told_why():
    big, small = make_executor("x", 1, ["big"]), make_executor("y", 9, ["small"])
    jobs = [
        make_job("busy", model="big"),
        make_job("nowhere", model="none"),
        make_job("head", 5, model="small"),
        make_job("behind", model="small"),
        make_job("held", tenant="b"),
        make_job("paused", tenant="c"),
    ]
    state = make_state(
        6, jobs=jobs, live=[make_live(make_job("old", 2, model="big"))], executors=[big, small]
    )
    state.hold("b")
    state.order.block(("tenant", "c"), "pause")
    assert waits(state, 0.0, 10) == {
        "busy": Reason.EXECUTOR_BUSY,
        "nowhere": Reason.NO_EXECUTOR,
        "head": Reason.HEAD_WAITS_FOR_UNITS,
        "behind": Reason.BEHIND_HEAD,
        "held": Reason.TENANT_HELD,
        "paused": Reason.JOB_PAUSED,
    }
    assert waits(make_state(6, jobs=[make_job("a")]), 0.0, 10) == {"a": Reason.STARTS_NOW}


def test_a_placement_names_the_units_before_and_after():
    first, second = cycle(make_state(6, jobs=[make_job("a", 2), make_job("b", 3)]), 0.0)
    assert (first.free_before, first.free_after) == (6, 4)
    assert (second.free_before, second.free_after) == (4, 1)
    assert (first.executor, first.reason) == ("x", Reason.PLACED)


def test_a_cycle_with_all_slots_taken_looks_no_further():
    jobs = [make_job("a"), make_job("b")]
    state = make_state(6, jobs=jobs, executors=[make_executor("x", 1)])
    done = run(state, 0.0)
    assert (len(done.placements), done.drained) == (1, False)
    assert waits(state, 0.0, 10) == {"b": Reason.EXECUTOR_BUSY}
    assert not run(state, 0.0).placements


def test_a_cycle_that_leaves_nobody_waiting_for_capacity_is_drained():
    assert run(make_state(6, jobs=[make_job("a")]), 0.0).drained
    assert not run(make_state(6, jobs=[make_job("a", 4), make_job("b", 4)]), 0.0).drained


def test_undo_gives_back_units_and_turn():
    state = make_state(4, jobs=[make_job("a", 4), make_job("b", 4, tenant="b")])
    before = state.order.memory(("normal", "a", None))
    (first,) = cycle(state, 0.0)
    state.undo(first)
    assert state.use.total == 0
    after = state.order.memory(("normal", "a", None))
    assert (after.turn, after.used) == (before.turn, before.used)
    assert placed(state) == ["b"]


TENANTS = "abc"
KEYS = [("user", "u"), ("workflow", "w")]
SHARED = [("key", "k")]


@st.composite
def worlds(draw, workspaces=1, deadlines=(False,)):
    reserve = draw(st.integers(0, 2))
    policy = Policy(
        backfill=draw(st.sampled_from(Backfill)),
        age_after=draw(st.sampled_from([0.0, 1000.0])),
        age_limit=2,
        deadlines=draw(st.sampled_from(deadlines)),
    )
    jobs = [
        make_job(
            f"j{index}",
            draw(st.integers(1, 4)),
            tenant=(tenant := draw(st.sampled_from(TENANTS))),
            workspace=f"{tenant}-{draw(st.integers(1, workspaces))}",
            submitted_at=NOW - draw(st.sampled_from([0, 1, 2, 1500, 2500])),
            class_name=draw(st.sampled_from(["normal", "normal", "batch", "incident", "expedite"])),
            model=draw(st.sampled_from(["", "m", "n", "none"])),
            limits=tuple(key for key in KEYS if draw(st.booleans())),
            shared=tuple(key for key in SHARED if draw(st.booleans())),
            expected_s=float(draw(st.integers(1, 4))),
            deadline=draw(st.sampled_from([None, NOW + 9, NOW + 99])),
        )
        for index in range(draw(st.integers(1, 12)))
    ]
    executors = [
        make_executor(name, draw(st.integers(0, 4)), models)
        for name, models in (("x", ["m"]), ("y", ["m", "n"]))
    ]
    old = make_live(make_job("old", draw(st.integers(1, 3)), expected_s=3), started_at=NOW)
    caps = {key: draw(st.integers(0, 2)) for key in (*KEYS, *SHARED) if draw(st.booleans())}
    return SimpleNamespace(
        policy=policy,
        pool=Pool(id="p", budget=draw(st.integers(reserve + 1, 8)), reserve=reserve),
        jobs=jobs,
        live=[old] if draw(st.booleans()) else [],
        executors=executors,
        caps=caps,
    )


def build(world):
    state = make_state(
        world.pool.budget,
        world.pool.reserve,
        live=world.live,
        executors=world.executors,
        caps=world.caps,
        policy=world.policy,
    )
    state.load(world.jobs, NOW)
    return state


def remembered(order, jobs, policy):
    lines = {(job.tenant, job.workspace) for job in jobs} | {(job.tenant, None) for job in jobs}
    return {
        (rule.name, *line): order.memory((rule.name, *line))
        for rule in policy.classes
        for line in (*lines, (None, None))
    }


def one_at_a_time(world):
    """Rebuild the order from the rows, place its first startable job, and begin again."""
    jobs, memory, found = list(world.jobs), {}, []
    live = [
        (make_job(one.job_id, one.cost, expected_s=3), "normal", "x", NOW) for one in world.live
    ]
    most = {True: world.pool.budget, False: world.pool.budget - world.pool.reserve}
    fitting = [job for job in jobs if job.cost <= most[job.class_name == "incident"]]
    while True:
        order = make_order(world.policy, memory=memory)
        counts = Counter(key for job, *_ in live for key in job.limits)
        for key in KEYS:
            if key in world.caps and counts[key] >= world.caps[key]:
                order.block(key, "limit")
        order.load(fitting, NOW)
        spots = {spot.job.id: spot for spot in order.walk_all()}
        first = first_startable(
            [(spot.job, spot.class_name) for spot in spots.values()],
            pool=world.pool,
            live=live,
            executors=world.executors,
            caps=world.caps,
            now=NOW,
            easy=world.policy.backfill is Backfill.EASY,
        )
        if first is None:
            return found
        job, class_name, executor, backfilled = first
        order.place(spots[job.id], NOW)
        memory = remembered(order, jobs, world.policy)
        fitting.remove(job)
        live.append((job, class_name, executor.id, NOW))
        found.append((job.id, class_name, executor.id, backfilled))


@given(worlds())
def test_a_cycle_equals_rebuilding_the_order_and_placing_one_job_at_a_time(world):
    outcome = [
        (one.spot.job.id, one.spot.class_name, one.executor, one.reason is Reason.BACKFILLED)
        for one in cycle(build(world), NOW)
    ]
    assert outcome == one_at_a_time(world)


@given(worlds(workspaces=2, deadlines=(False, True)))
def test_a_cycle_breaks_no_limit_and_leaves_nothing_that_could_start(world):
    state = build(world)
    held_before = state.use.total
    placements = cycle(state, NOW)
    assert Reason.STARTS_NOW not in waits(state, NOW, 100).values()
    assert cycle(state, NOW) == []
    assert state.use.total == sum(live.cost for live in state.live.values())
    if placements:
        assert state.use.total <= max(world.pool.budget, held_before)
    counts = Counter(key for live in state.live.values() for key in (*live.limits, *live.shared))
    assert counts == Counter(state.limits.counts)
    assert all(counts[key] <= cap for key, cap in world.caps.items())
    busy = Counter(live.executor for live in state.live.values())
    for executor in world.executors:
        assert busy[executor.id] <= max(executor.slots, len(world.live))


@given(worlds())
def test_undoing_every_placement_frees_everything_that_the_cycle_took(world):
    state = build(world)
    before = (state.use.total, dict(state.live), dict(state.limits.counts))
    for placement in reversed(cycle(state, NOW)):
        state.undo(placement)
    assert (state.use.total, state.live, state.limits.counts) == before


@pytest.mark.parametrize("waiting", [1, 5])
def test_the_number_of_jobs_told_is_bounded(waiting):
    jobs = [make_job(f"j{index}", 6) for index in range(9)]
    assert len(waits(make_state(6, jobs=jobs), 0.0, waiting)) == waiting


def test_general_use_never_enters_the_reserve_over_many_cycles():
    state = make_state(6, 2, jobs=[make_job(f"j{index}", 1 + index % 3) for index in range(20)])
    while cycle(state, 0.0):
        assert state.use.general <= 4
        assert free_units(state.pool, state.use, uses_reserve=True) >= 2
        state.end(next(iter(state.live)))

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduling.core.capacity.room import (
    Room,
    Use,
    ceiling,
    free_units,
    never_fits,
    planned_end,
    shadow_of,
)
from scheduling.core.capacity.walk import Fit, Skip, Stop, Walk
from scheduling.core.placement import choose
from scheduling.core.types import Executor, Job, Live, Pool, Reason
from tests.scheduling.core.capacity_reference import RESERVE, may_run, place_all

NOW = 1000.0
BUSY = Reason.EXECUTOR_BUSY


def make_job(name, cost=1, **changes):
    return Job(
        **{
            "id": name,
            "seq": 0,
            "tenant": "a",
            "workspace": "a1",
            "submitted_at": 0.0,
            "class_name": "normal",
            "cost": cost,
            **changes,
        }
    )


def make_executor(name="x", slots=100, models=(), seats=None):
    return Executor(id=name, kinds=frozenset(), slots=slots, models=frozenset(models), seats=seats)


class Bench:
    """A pool with plain dictionaries behind its room."""

    def __init__(self, pool, executors=None, caps=None, *, easy=False):
        self.pool, self.executors = pool, executors or [make_executor()]
        self.use, self.live, self.busy, self.counts, self.manned = Use(), {}, {}, {}, {}
        self.room = Room(
            now=NOW,
            pool=pool,
            use=self.use,
            live=self.live,
            busy=self.busy,
            counts=self.counts,
            caps=caps or {},
            reserve_classes=frozenset(RESERVE),
            backfill=easy,
            manned=self.manned,
        )

    def start(self, job, class_name="normal", executor="x", started_at=NOW):
        self.live[job.id] = Live(
            job_id=job.id,
            tenant=job.tenant,
            workspace=job.workspace,
            cost=job.cost,
            class_name=class_name,
            executor=executor,
            started_at=started_at,
            expected_s=job.expected_s,
        )
        self.use.add(job.cost, uses_reserve=class_name in RESERVE)
        self.busy[executor] = self.busy.get(executor, 0) + 1
        self.manned[executor] = self.manned.get(executor, 0) + job.by_worker
        for key in (*job.limits, *job.shared):
            self.counts[key] = self.counts.get(key, 0) + 1

    def test(self, walk, job, class_name="normal"):
        reserved = class_name in RESERVE
        return walk.test(job, uses_reserve=reserved, candidates=self.able(job))

    def able(self, job):
        return [one for one in self.executors if may_run(job, one)]

    def fits(self, walk, job, class_name="normal", *, backfilled=False):
        answer = self.test(walk, job, class_name)
        return answer == Fit(self.able(job), backfilled=backfilled)

    def place_all(self, order):
        walk, placed = Walk(self.room), []
        for job, class_name in order:
            answer = self.test(walk, job, class_name)
            if isinstance(answer, Fit):
                executor = self.choose(job)
                self.start(job, class_name, executor.id)
                placed.append((job.id, executor.id, answer.backfilled))
        return placed

    def choose(self, job):
        """Choose as a cycle does: for what needs no worker, an executor has all its seats."""
        by_worker = job.by_worker
        free = [
            one if by_worker else replace(one, slots=one.most)
            for one in self.executors
            if may_run(job, one) and self.room.takes(one, by_worker=by_worker)
        ]
        return choose(free, self.manned if by_worker else self.busy)


def test_the_reserve_is_free_for_those_who_may_use_it_only():
    pool = Pool(id="p", budget=10, reserve=3)
    assert free_units(pool, Use(), uses_reserve=True) == 10
    assert free_units(pool, Use(), uses_reserve=False) == 7
    assert free_units(pool, Use(reserved=2, general=4), uses_reserve=False) == 3
    assert free_units(pool, Use(reserved=5, general=4), uses_reserve=False) == 1


def test_a_dial_below_use_makes_free_negative_and_never_unlimited():
    bench = Bench(Pool(id="p", budget=2))
    bench.start(make_job("a", 5))
    assert bench.room.free(uses_reserve=False) == -3
    assert isinstance(bench.test(Walk(bench.room), make_job("b")), Stop)


def test_a_cost_above_what_its_class_can_ever_have_never_fits():
    pool = Pool(id="p", budget=6, reserve=2)
    assert ceiling(pool, uses_reserve=False) == 4
    assert not never_fits(4, pool, uses_reserve=False)
    assert never_fits(5, pool, uses_reserve=False)
    assert not never_fits(6, pool, uses_reserve=True)


@given(
    st.integers(0, 50),
    st.integers(0, 20),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(1, 9),
)
def test_general_work_never_eats_into_the_reserve(budget, reserve, reserved, general, cost):
    pool, use = Pool(id="p", budget=budget, reserve=reserve), Use(reserved, general)
    if cost <= free_units(pool, use, uses_reserve=False):
        use.add(cost, uses_reserve=False)
        assert use.general <= budget - reserve
        assert use.total <= budget
        assert not never_fits(cost, pool, uses_reserve=False)


def test_the_first_general_job_that_does_not_fit_stops_general_work_only():
    bench = Bench(Pool(id="p", budget=6, reserve=2))
    bench.start(make_job("a", 2))
    walk = Walk(bench.room)
    assert bench.test(walk, make_job("b", 3)) == Stop(Reason.HEAD_WAITS_FOR_UNITS, whole_pool=False)
    assert bench.test(walk, make_job("c", 1)) == Skip(Reason.BEHIND_HEAD)
    assert bench.test(walk, make_job("d", 4)) == Skip(Reason.BEHIND_HEAD)
    assert walk.ended(uses_reserve=False)
    assert not walk.ended(uses_reserve=True)
    assert bench.fits(walk, make_job("e", 4), "incident")


def test_an_incident_that_does_not_fit_stops_the_whole_pool():
    bench = Bench(Pool(id="p", budget=6, reserve=2))
    bench.start(make_job("a", 2))
    walk = Walk(bench.room)
    assert bench.test(walk, make_job("b", 5), "incident").whole_pool
    assert bench.test(walk, make_job("c", 1), "incident") == Skip(Reason.BEHIND_HEAD)
    assert bench.test(walk, make_job("d", 1)) == Skip(Reason.BEHIND_HEAD)
    assert walk.ended(uses_reserve=True)


def test_an_own_limit_is_skipped_and_blocks_nobody():
    bench = Bench(Pool(id="p", budget=9), caps={("user", "u"): 1})
    own = {"limits": (("user", "u"),)}
    bench.start(make_job("a", **own))
    walk = Walk(bench.room)
    assert bench.test(walk, make_job("b", 99, **own)) == Skip(Reason.OWN_LIMIT)
    assert bench.fits(walk, make_job("c"))


def test_a_full_shared_limit_is_closed_to_those_behind():
    window, lock = ("provider", "p"), ("key", "deploy")
    bench = Bench(Pool(id="p", budget=9), caps={window: 1, lock: 1})
    bench.start(make_job("a", shared=(window,)))
    walk = Walk(bench.room)
    assert bench.test(walk, make_job("b", shared=(lock, window))) == Skip(Reason.SHARED_LIMIT)
    bench.counts[window] = 0
    assert bench.test(walk, make_job("c", shared=(window,))) == Skip(Reason.SHARED_LIMIT)
    assert bench.fits(walk, make_job("d", shared=(lock,)))
    assert bench.fits(walk, make_job("e"))


def test_full_executors_are_closed_and_jobs_that_run_elsewhere_go_on():
    big, small = make_executor("x", 1, ["big"]), make_executor("y", 2, ["small"])
    bench = Bench(Pool(id="p", budget=9), [big, small])
    bench.start(make_job("a"))
    walk = Walk(bench.room)
    assert bench.test(walk, make_job("j1", model="big")) == Skip(Reason.EXECUTOR_BUSY)
    assert bench.fits(walk, make_job("j2", model="small"))
    bench.busy["x"] = 0
    assert bench.test(walk, make_job("j3", model="big")) == Skip(Reason.EXECUTOR_BUSY)
    assert bench.test(walk, make_job("j4", model="other")) == Skip(Reason.NO_EXECUTOR)


def test_a_job_that_lacks_units_and_slots_stops_for_units():
    bench = Bench(Pool(id="p", budget=2), [make_executor("x", 1)])
    bench.start(make_job("a"))
    assert isinstance(bench.test(Walk(bench.room), make_job("b", 2)), Stop)


def test_a_job_passed_over_for_its_slot_stops_the_walk_once_it_lacks_units_too():
    bench = Bench(
        Pool(id="p", budget=6, reserve=2), [make_executor("x", 0, ["m"]), make_executor()]
    )
    bench.executors[1] = make_executor("y")
    walk = Walk(bench.room)
    claimed = make_job("claimed", 4, model="m")
    assert bench.test(walk, claimed, "incident") == Skip(Reason.EXECUTOR_BUSY)
    for name in ("a", "b"):
        assert bench.fits(walk, make_job(name), "normal")
        bench.start(make_job(name), executor="y")
    assert not walk.stopped(uses_reserve=True)
    assert bench.fits(walk, make_job("c"), "normal")
    bench.start(make_job("c"), executor="y")
    assert bench.test(walk, make_job("d"), "normal") == Skip(Reason.BEHIND_HEAD)
    assert walk.ended(uses_reserve=True)


def test_an_overdue_job_is_planned_to_end_now():
    bench = Bench(Pool(id="p", budget=4))
    bench.start(make_job("a", expected_s=10), started_at=NOW - 4)
    bench.start(make_job("b", expected_s=10), started_at=NOW - 40)
    assert [planned_end(live, NOW) for live in bench.live.values()] == [NOW + 6, NOW]


def test_the_shadow_is_when_enough_units_come_back_with_all_that_ends_then():
    bench = Bench(Pool(id="p", budget=6))
    for name, cost, expected_s in (("a", 2, 10), ("b", 1, 20), ("c", 2, 20), ("d", 1, 30)):
        bench.start(make_job(name, cost, expected_s=expected_s))
    shadow = shadow_of(3, bench.room, uses_reserve=False)
    assert (shadow.at, shadow.extra) == (NOW + 20, 2)


def test_backfill_lets_short_and_small_jobs_pass_but_never_delays_the_head():
    bench = Bench(Pool(id="p", budget=6), easy=True)
    bench.start(make_job("a", 4, expected_s=100))
    walk = Walk(bench.room)
    assert isinstance(bench.test(walk, make_job("head", 5)), Stop)
    assert not walk.ended(uses_reserve=False)
    assert bench.fits(walk, make_job("short", 2, expected_s=100), backfilled=True)
    assert bench.test(walk, make_job("long", 2, expected_s=101)) == Skip(Reason.BEHIND_HEAD)
    assert bench.fits(walk, make_job("small", 1, expected_s=999), backfilled=True)
    bench.start(make_job("small", 1, expected_s=999))
    assert bench.test(walk, make_job("small2", 1, expected_s=999)) == Skip(Reason.BEHIND_HEAD)
    assert bench.test(walk, make_job("big", 2, expected_s=1)) == Skip(Reason.BEHIND_HEAD)


def test_only_the_first_stopped_head_is_protected():
    bench = Bench(Pool(id="p", budget=6, reserve=1), easy=True)
    bench.start(make_job("a", 4, expected_s=100))
    walk = Walk(bench.room)
    assert isinstance(bench.test(walk, make_job("head", 5)), Stop)
    assert bench.test(walk, make_job("second", 4), "incident").whole_pool
    assert bench.fits(walk, make_job("short", 1, expected_s=50), "incident", backfilled=True)


def test_what_needs_no_worker_passes_what_waits_for_one_and_takes_no_more_than_the_seats():
    bench = Bench(Pool(id="p", budget=9), [make_executor(slots=1, seats=3)])
    walk, call = Walk(bench.room), {"by_worker": False}
    bench.start(make_job("a"))
    assert bench.test(walk, make_job("b")) == Skip(BUSY)
    for name in ("c", "d"):
        assert bench.fits(walk, make_job(name, **call))
        bench.start(make_job(name, **call))
    assert bench.test(walk, make_job("e", **call)) == Skip(BUSY)
    bench.manned["x"] = 0
    assert bench.test(Walk(bench.room), make_job("f")) == Skip(BUSY)


def test_a_room_that_counts_no_workers_apart_takes_all_that_runs_for_theirs():
    room = replace(Bench(Pool(id="p", budget=9)).room, manned=None, busy={"x": 1})
    assert not room.takes(make_executor(slots=1, seats=2), by_worker=True)
    assert room.takes(make_executor(slots=1, seats=2), by_worker=False)


KEYS = [("user", "u"), ("user", "v")]
SHARED = [("key", "k"), ("key", "l")]


@st.composite
def benches(draw):
    reserve = draw(st.integers(0, 3))
    pool = Pool(id="p", budget=draw(st.integers(reserve + 1, 10)), reserve=reserve)
    executors = [
        make_executor(name, draw(st.integers(0, 2)), models, draw(st.sampled_from([None, 2, 4])))
        for name, models in (("x", ["m"]), ("y", ["m", "n"]), ("z", ["n"]))
    ]
    caps = {key: draw(st.integers(0, 3)) for key in (*KEYS, *SHARED) if draw(st.booleans())}
    jobs = []
    for index in range(draw(st.integers(1, 12))):
        class_name = draw(st.sampled_from(["normal", "normal", "incident"]))
        most = pool.budget - (0 if class_name in RESERVE else reserve)
        job = make_job(
            f"j{index}",
            draw(st.integers(1, min(most, 5))),
            model=draw(st.sampled_from(["", "m", "n", "none"])),
            limits=tuple(key for key in KEYS if draw(st.booleans())),
            shared=tuple(key for key in SHARED if draw(st.booleans())),
            by_worker=draw(st.booleans()),
            expected_s=float(draw(st.integers(1, 5))),
        )
        jobs.append((job, class_name))
    live = jobs[: draw(st.integers(0, 3))]
    starts = [NOW - draw(st.integers(0, 6)) for _ in live]
    return SimpleNamespace(
        pool=pool,
        executors=executors,
        caps=caps,
        easy=draw(st.booleans()),
        live=[(*one, "x", at) for one, at in zip(live, starts, strict=True)],
        order=jobs[len(live) :],
    )


@given(benches())
def test_one_walk_places_what_placing_one_job_at_a_time_places(case):
    bench = Bench(case.pool, case.executors, case.caps, easy=case.easy)
    for job, class_name, executor, started_at in case.live:
        bench.start(job, class_name, executor, started_at)
    expected = place_all(
        case.order,
        pool=case.pool,
        live=case.live,
        executors=case.executors,
        caps=case.caps,
        now=NOW,
        easy=case.easy,
    )
    assert bench.place_all(case.order) == expected


@given(benches())
def test_a_backfilled_job_never_moves_the_planned_start_of_the_head(case):
    bench = Bench(case.pool, case.executors, case.caps, easy=True)
    for job, class_name, executor, started_at in case.live:
        bench.start(job, class_name, executor, started_at)
    walk, head, planned = Walk(bench.room), None, None
    for job, class_name in case.order:
        answer = bench.test(walk, job, class_name)
        if isinstance(answer, Stop) and head is None:
            head = (job.cost, class_name in RESERVE)
            planned = shadow_of(head[0], bench.room, uses_reserve=head[1]).at
        if isinstance(answer, Fit) and answer.backfilled:
            bench.start(job, class_name, bench.choose(job).id)
            assert shadow_of(head[0], bench.room, uses_reserve=head[1]).at <= planned


@pytest.mark.parametrize("easy", [False, True])
def test_jobs_that_weigh_more_than_one_unit_keep_their_order(easy):
    bench = Bench(Pool(id="p", budget=6), easy=easy)
    order = [(make_job(name, cost), "normal") for name, cost in (("a", 3), ("b", 3), ("c", 3))]
    assert [name for name, *_ in bench.place_all(order)] == ["a", "b"]
    assert bench.room.free(uses_reserve=False) == 0

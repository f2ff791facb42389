"""What the walk makes of retries and circuits: budgets, rests and probes."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.policy.cycle import cycle, waits
from scheduling.core.policy.limits import Limits
from scheduling.core.policy.windows import Rate
from scheduling.core.retry import SPAN_S, RetrySettings
from scheduling.core.types import KEY, Reason
from tests.scheduling.core.pools import make_executor, make_job, make_live, make_state

NOW = 1000.0


def limits(floor=1, ratio=0.0, caps=None):
    found = Limits(caps or {})
    found.set_retries(RetrySettings(budget_floor=floor, budget_ratio=ratio))
    return found


def placed(state, now=NOW):
    return [one.spot.job.id for one in cycle(state, now)]


def rest(state, now=NOW):
    return waits(state, now, 100)


def test_a_retry_without_budget_waits_and_first_tries_go_on():
    jobs = [make_job("r1", retry=True), make_job("r2", retry=True), make_job("f1"), make_job("f2")]
    state = make_state(10, jobs=jobs, executors=[make_executor(provider="p")], limits=limits())
    assert placed(state) == ["r1", "f1", "f2"]
    assert rest(state) == {"r2": Reason.RETRY_BUDGET}
    assert state.opens_at == NOW + SPAN_S
    assert placed(state, NOW + SPAN_S - 0.01) == []
    assert placed(state, NOW + SPAN_S) == ["r2"]


def test_a_success_makes_room_for_a_retry():
    jobs = [make_job("r1", retry=True), make_job("r2", retry=True)]
    shared = limits(floor=0, ratio=1.0)
    state = make_state(10, jobs=jobs, executors=[make_executor(provider="p")], limits=shared)
    assert placed(state) == []
    assert state.opens_at == inf
    shared.succeeded("p", NOW)
    shared.succeeded("unheard of", NOW)
    assert placed(state) == ["r1"]


def test_a_retry_goes_where_another_provider_has_budget_left():
    executors = [make_executor("x", provider="p"), make_executor("y", provider="q")]
    jobs = [make_job(f"r{n}", retry=True) for n in range(3)]
    state = make_state(10, jobs=jobs, executors=executors, limits=limits())
    assert [(one.spot.job.id, one.executor) for one in cycle(state, NOW)] == [
        ("r0", "x"),
        ("r1", "y"),
    ]


def test_a_retry_that_did_not_come_about_is_given_back():
    job = make_job("r1", retry=True)
    state = make_state(10, jobs=[job], executors=[make_executor(provider="p")], limits=limits())
    (placement,) = cycle(state, NOW)
    state.undo(placement)
    state.wait(job)
    assert placed(state, NOW + 1) == ["r1"]


def test_budgets_outlive_a_change_of_settings_and_take_a_past():
    shared = limits()
    state = make_state(10, executors=[make_executor(provider="p")], limits=shared)
    assert shared.retries["p"].settings.budget_floor == 1
    past = shared.retries["p"]
    past.retried(NOW)
    shared.set_retries(RetrySettings(budget_floor=3), {"q": past})
    assert shared.retries["p"].used(NOW) == (0, 0)
    assert shared.retries["q"].used(NOW) == (1, 0)
    shared.retried("p", NOW)
    shared.retried("nobody's", NOW)
    assert shared.retries["p"].used(NOW) == (1, 0)
    copy = state.first(0)
    copy.limits.retried("p", NOW)
    assert shared.retries["p"].used(NOW) == (1, 0)
    assert copy.limits.retries["p"].used(NOW) == (2, 0)
    copy.limits.drop_windows()
    assert (copy.limits.retries, len(shared.retries)) == ({}, 2)


def test_a_window_and_a_full_provider_stand_before_the_retry_budget():
    job = make_job("r1", retry=True, tokens=5)
    shared = limits(floor=0)
    shared.set_rates({("provider", "p"): Rate(requests=1)})
    state = make_state(10, jobs=[job], executors=[make_executor(provider="p")], limits=shared)
    assert rest(state) == {"r1": Reason.RETRY_BUDGET}
    shared.spend([("provider", "p")], 5, NOW)
    assert rest(state) == {"r1": Reason.RATE_WINDOW}
    shared.set_caps({("provider", "p"): 0})
    assert rest(state) == {"r1": Reason.SHARED_LIMIT}


@pytest.mark.parametrize(
    ("resting", "free"), [("m", ["n1", "any"]), ("n", ["m1", "m2"]), (KEY, [])]
)
def test_an_open_circuit_keeps_away_what_would_run_its_model_and_nothing_else(resting, free):
    executor = make_executor(
        models=["m", "n"], default_model="n", resting=frozenset([resting]), provider="p"
    )
    jobs = [make_job("m1", model="m"), make_job("m2", model="m"), make_job("n1", model="n")]
    state = make_state(10, jobs=[*jobs, make_job("any")], executors=[executor])
    assert placed(state) == free
    assert set(rest(state).values()) <= {Reason.CIRCUIT_OPEN}
    assert state.has_free_slot() is (resting != KEY)


def test_what_no_mended_circuit_would_help_is_told_that_nothing_runs_it():
    executor = make_executor(models=["m"], resting=frozenset("m"))
    jobs = [make_job("a", model="m"), make_job("b", model="z"), make_job("c", model="m", kind="k")]
    state = make_state(10, jobs=jobs, executors=[executor])
    assert placed(state) == []
    assert rest(state) == {
        "a": Reason.CIRCUIT_OPEN, "b": Reason.NO_EXECUTOR, "c": Reason.NO_EXECUTOR,
    }  # fmt: skip


@pytest.mark.parametrize("probing", ["m", KEY])
def test_a_half_open_circuit_lets_one_job_through_at_a_time(probing):
    executor = make_executor(models=["m", "n"], probing=frozenset([probing]))
    jobs = [make_job(name, model=name[0]) for name in ("m1", "m2", "n1")]
    state = make_state(10, jobs=jobs, executors=[executor])
    first = ["m1", "n1"] if probing == "m" else ["m1"]
    assert placed(state) == first
    assert rest(state)["m2"] is Reason.CIRCUIT_OPEN
    assert placed(state, NOW + 1) == []
    state.end("m1")
    assert placed(state, NOW + 2)[0] == "m2"


def test_a_probe_does_not_close_its_executor_to_other_models_when_slots_are_short():
    executors = [make_executor("x", 2, models=["m", "n"], probing=frozenset("m"))]
    state = make_state(
        10,
        jobs=[make_job("m2", model="m"), make_job("n1", model="n"), make_job("n2", model="n")],
        live=[make_live(make_job("m1"), executor="x", model="m")],
        executors=executors,
    )
    assert placed(state) == ["n1"]
    assert rest(state) == {"m2": Reason.CIRCUIT_OPEN, "n2": Reason.EXECUTOR_BUSY}


def test_a_job_that_is_funded_for_some_executors_goes_to_those_alone():
    executors = [make_executor("x"), make_executor("y")]
    jobs = [make_job("a", places=frozenset("y")), make_job("b", places=frozenset("z"))]
    state = make_state(10, jobs=jobs, executors=executors)
    assert [(one.spot.job.id, one.executor) for one in cycle(state, NOW)] == [("a", "y")]
    assert rest(state) == {"b": Reason.NO_EXECUTOR}


@st.composite
def plays(draw):
    steps = st.tuples(
        st.sampled_from(["first", "retry", "done", "fail", "rest", "probe", "close"]),
        st.sampled_from("mn"),
        st.floats(0, 30),
    )
    return draw(st.lists(steps, max_size=60))


@given(plays(), st.integers(0, 3), st.floats(0, 1))
def test_whatever_happens_budgets_rests_and_probes_hold(steps, floor, ratio):
    """Two executors of two providers, driven as a leader drives them."""
    shared, now, number = limits(floor, ratio), NOW, 0
    circuits = {("x", "m"): "closed", ("x", "n"): "closed", ("y", "m"): "closed"}
    state = make_state(20, executors=_executors(circuits), limits=shared)
    retries, successes = {"p": [], "q": []}, {"p": [], "q": []}
    for kind, model, seconds in steps:
        now += seconds
        which = ("x", model)
        if kind in ("first", "retry"):
            number += 1
            state.wait(make_job(f"j{number}", model=model, retry=kind == "retry"))
        elif kind in ("done", "fail") and state.live:
            live = state.end(min(state.live))
            provider = state.executors[live.executor].provider
            if kind == "done":
                shared.succeeded(provider, now)
                successes[provider].append(now)
        elif kind in ("rest", "probe", "close"):
            circuits[which] = {"rest": "open", "probe": "half", "close": "closed"}[kind]
            state.set_executors({one.id: one for one in _executors(circuits)})
        before = dict(state.on_model)
        for one in cycle(state, now):
            job, on = one.spot.job, (one.executor, one.spot.job.model)
            assert circuits.get(on) != "open"
            assert circuits.get(on) != "half" or not before.get(on, 0)
            before[on] = before.get(on, 0) + 1
            if job.retry:
                provider = state.executors[one.executor].provider
                retries[provider].append(now)
                within = sum(at > now - SPAN_S for at in retries[provider])
                share = ratio * sum(at > now - SPAN_S for at in successes[provider])
                assert within - 1 < floor + share
        told = rest(state, now)
        assert not {Reason.STARTS_NOW} & set(told.values())
        firsts = {job.id for job, _ in state.order.startable() if not job.retry}
        assert all(told[name] is not Reason.RETRY_BUDGET for name in firsts)


def _executors(circuits):
    def models(executor, state):
        return frozenset(
            model for (on, model), is_ in circuits.items() if (on, is_) == (executor, state)
        )

    return [
        make_executor(
            name, 3, models=offered, provider=provider,
            resting=models(name, "open"), probing=models(name, "half"),
        )
        for name, offered, provider in (("x", "mn", "p"), ("y", "m", "q"))
    ]  # fmt: skip


def test_stranded_are_the_startable_jobs_of_named_models_that_open_circuits_alone_keep_back():
    executors = [
        make_executor("x", models=["m"], resting=frozenset("m")),
        make_executor("y", models="n"),
    ]
    jobs = [
        make_job("m1", model="m"), make_job("m2", model="m", kind="k"), make_job("n1", model="n"),
        make_job("m3", model="m", tenant="held"), make_job("z1", model="z"),
        make_job("call", model="m", by_worker=False),
    ]  # fmt: skip
    state = make_state(10, jobs=jobs, executors=executors)
    state.hold("held")
    assert [job.id for job in state.stranded({"m", "n"})] == ["m1"]
    assert list(state.stranded({"z"})) == []

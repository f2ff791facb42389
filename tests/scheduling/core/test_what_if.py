"""What a lever would change is the difference of two forecasts, and nothing is moved by asking."""

import pytest
from msgspec.structs import replace

from scheduling.core.eta import forecast
from scheduling.core.eta.what_if import effect, starts
from tests.scheduling.core.pools import make_job, make_live, make_state


@pytest.fixture
def narrow():
    """Room for one job: j0 runs until 60, then a1, b1, a2 would run for 60 s each."""
    jobs = [make_job("a1"), make_job("b1", tenant="b"), make_job("a2")]
    return make_state(1, jobs=jobs, live=[make_live(make_job("j0"))]), jobs


def asked(state, change, job, **more):
    before = more.pop("before", None) or starts(state, 0.0, {})
    return effect(state, change, job, 0.0, before=before, measured=more.pop("measured", {}))


def test_the_starts_are_those_of_the_forecast_with_measured_times(narrow):
    state, _ = narrow
    assert starts(state, 0.0, {}) == {"a1": 60.0, "b1": 120.0, "a2": 180.0}
    assert starts(state, 0.0, {"": 10.0}) == {"a1": 10.0, "b1": 20.0, "a2": 30.0}


def test_a_higher_class_moves_a_job_to_the_front_and_the_others_back(narrow):
    state, jobs = narrow
    urgent = replace(jobs[2], class_name="expedite")
    found = asked(state, lambda copy: copy.wait(urgent), jobs[2])
    assert (found.place, found.start, found.start_before) == (1, 60.0, 180.0)
    assert {one.job.id: one.by_s for one in found.delayed} == {"a1": 60.0, "b1": 60.0}
    assert starts(state, 0.0, {})["a2"] == 180.0


def test_a_larger_pool_delays_nobody(narrow):
    state, jobs = narrow
    found = asked(state, lambda copy: copy.set_pool(replace(copy.pool, budget=4)), jobs[2])
    assert (found.place, found.start, found.delayed) == (3, 0.0, ())


def test_a_job_that_stood_nowhere_has_no_start_before(narrow):
    state, _ = narrow
    paused = make_job("p", tenant="c", submitted_at=-1.0)
    found = asked(state, lambda copy: copy.wait(paused), paused)
    assert (found.place, found.start, found.start_before) == (1, 60.0, None)
    assert len(found.delayed) == 3


def test_an_unheld_tenants_job_finds_its_place_again(narrow):
    state, jobs = narrow
    state.hold("b")
    found = asked(state, lambda copy: copy.unhold("b"), jobs[1])
    assert (found.place, found.start, found.start_before) == (2, 120.0, None)
    assert [one.job.id for one in found.delayed] == ["a2"]


def test_a_lever_that_does_not_help_says_so(narrow):
    state, jobs = narrow
    found = asked(state, lambda copy: copy.hold("a"), jobs[0])
    assert (found.place, found.start, found.start_before) == (None, None, 60.0)
    assert found.delayed == ()


def test_who_stands_outside_the_lines_for_now_is_counted_too():
    jobs = [make_job("a1", limits=(("user", "u"),)), make_job("b1", tenant="b")]
    live = make_live(make_job("j0", limits=(("user", "u"),)))
    state = make_state(1, jobs=jobs, live=[live], caps={("user", "u"): 1})
    larger = replace(jobs[1], class_name="expedite")
    found = asked(state, lambda copy: copy.wait(larger), jobs[1])
    assert starts(state, 0.0, {}) == {"a1": 60.0, "b1": 120.0}
    assert [(one.job.id, one.by_s) for one in found.delayed] == [("a1", 60.0)]


def test_starts_that_the_looks_did_not_suffice_for_are_told_as_rough(narrow, monkeypatch):
    state, jobs = narrow
    urgent = replace(jobs[2], class_name="expedite")
    assert not asked(state, lambda copy: copy.wait(urgent), jobs[2]).rough
    monkeypatch.setattr(forecast, "LOOKS_LEAST", 1)
    monkeypatch.setattr(forecast, "LOOKS_EACH", 0)
    found = asked(state, lambda copy: copy.wait(urgent), jobs[2])
    assert (found.rough, found.start, found.start_before) == (True, 60.0, 180.0)
    same = asked(state, lambda copy: copy.set_weight("a", 1), jobs[0])
    assert (same.start, same.delayed, same.rough) == (60.0, (), True)

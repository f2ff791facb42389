import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.breaker import Breaker, BreakerSettings, Circuit, Signal, admits, after

SETTINGS = BreakerSettings(threshold=3, cooldown_s=60, longest_cooldown_s=600)


def told(breaker, signal, now, retry_after_s=None):
    return after(breaker, signal, now=now, settings=SETTINGS, retry_after_s=retry_after_s)


def open_at(breaker, now):
    return not admits(breaker, now=now, settings=SETTINGS)


def test_failures_in_a_row_open_the_circuit_at_the_threshold():
    breaker = Breaker()
    for now in (0, 1):
        breaker = told(breaker, Signal.FAILURE, now)
        assert not open_at(breaker, now)
    breaker = told(breaker, Signal.FAILURE, 2)
    assert open_at(breaker, 2)
    assert open_at(breaker, 61.9)
    assert not open_at(breaker, 62)


def test_a_success_between_failures_starts_the_count_again():
    breaker = Breaker()
    for signal in (Signal.FAILURE, Signal.FAILURE, Signal.SUCCESS, Signal.FAILURE, Signal.FAILURE):
        breaker = told(breaker, signal, 0)
    assert breaker.state is Circuit.CLOSED


@pytest.mark.parametrize(
    ("first", "second", "until"), [((0, 1), (0.5, None), 60.5), ((0, None), (0.5, 1), 60)]
)
def test_a_later_shorter_cool_down_does_not_shorten_the_circuit(first, second, until):
    breaker = Breaker()
    for now, retry_after_s in (first, second):
        breaker = told(breaker, Signal.RATE_LIMITED, now, retry_after_s)
    assert breaker.open_until == until
    assert open_at(breaker, 2)
    assert open_at(breaker, 59)
    assert not open_at(breaker, 61)


def test_half_open_lets_a_single_probe_through():
    breaker = told(told(Breaker(), Signal.RATE_LIMITED, 0, 1), Signal.CALL, 2)
    assert breaker.state is Circuit.HALF_OPEN
    assert open_at(breaker, 3)


def test_the_probes_success_closes_and_its_failure_opens_again():
    probing = told(told(Breaker(), Signal.RATE_LIMITED, 0, 1), Signal.CALL, 2)
    assert told(probing, Signal.SUCCESS, 3) == Breaker()
    assert told(probing, Signal.FAILURE, 3).open_until == 63
    assert told(probing, Signal.RATE_LIMITED, 3, 5).open_until == 8


def test_a_probe_that_is_never_reported_gives_up_its_turn():
    probing = told(told(Breaker(), Signal.RATE_LIMITED, 0, 1), Signal.CALL, 2)
    assert open_at(probing, 61.9)
    assert not open_at(probing, 62)


def test_a_late_success_does_not_close_an_open_circuit():
    breaker = told(Breaker(), Signal.RATE_LIMITED, 0, 10)
    assert told(breaker, Signal.SUCCESS, 1) == breaker
    assert told(breaker, Signal.CALL, 1) == breaker


def test_calls_leave_a_closed_circuit_as_it_is():
    breaker = told(Breaker(), Signal.FAILURE, 0)
    assert told(breaker, Signal.CALL, 1) == breaker


@pytest.mark.parametrize(
    ("asked", "rest"), [(math.nan, 60), (-1, 60), (None, 60), (0, 0), (1e12, 600), (math.inf, 600)]
)
def test_an_absurd_retry_after_is_made_safe(asked, rest):
    assert told(Breaker(), Signal.RATE_LIMITED, 0, asked).open_until == rest


def test_every_state_answers_every_signal():
    for state, signal in product(Circuit, Signal):
        assert isinstance(told(Breaker(state=state), signal, 0), Breaker)


@given(
    st.lists(
        st.tuples(st.sampled_from(Signal), st.floats(0, 50), st.none() | st.floats(0, 1000)),
        max_size=30,
    )
)
def test_while_open_the_deadline_never_comes_nearer_and_nothing_passes(steps):
    breaker, now = Breaker(), 0.0
    for signal, wait, retry_after_s in steps:
        now += wait
        was = told(breaker, Signal.CLOCK, now)
        breaker = told(was, signal, now, retry_after_s)
        if was.state is Circuit.OPEN:
            assert breaker.state is Circuit.OPEN
            assert breaker.open_until >= was.open_until
            assert open_at(was, now)

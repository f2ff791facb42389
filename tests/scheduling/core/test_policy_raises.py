"""Raises of limits: what is in force is a function of the time, and adds to what there is."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.policy.raises import (
    Raise,
    cap_needs,
    caps_raised,
    changes_at,
    in_force,
    rate_needs,
    rates_raised,
)
from scheduling.core.policy.windows import Rate

A, B = ("tenant", "a"), ("provider", "b")


def up(key=A, starts_at=0.0, ends_at=10.0, **amount):
    return Raise(id="r", key=key, starts_at=starts_at, ends_at=ends_at, **amount)


def test_a_raise_holds_from_its_start_and_no_more_at_its_end():
    one = up(starts_at=1.0, ends_at=2.0, running=1)
    assert [bool(in_force([one], now)) for now in (0.9, 1.0, 1.9, 2.0)] == [
        False,
        True,
        True,
        False,
    ]


def test_raises_of_one_key_add_up_on_the_base_that_there_is_and_raise_nothing_where_there_is_none():
    raises = [up(running=1), up(running=2), up(B, running=5)]
    base = {A: 3}
    assert caps_raised(base, raises) == {A: 6}
    assert base == {A: 3}


def test_a_rate_is_raised_in_what_it_limits_alone():
    raises = [up(B, requests=2), up(B, tokens=5), up(A, tokens=5)]
    assert rates_raised({B: Rate(tokens=7)}, raises) == {B: Rate(tokens=12)}
    assert rates_raised({B: Rate(requests=1)}, raises) == {B: Rate(requests=3)}


def test_a_raise_of_running_jobs_leaves_the_rate_as_it_is():
    raises = [up(running=3)]
    rates = {A: Rate(requests=1, tokens=1)}
    assert rates_raised(rates, raises) == rates
    assert not rate_needs(raises[0], rates, (9, 9), 9)


def test_a_job_needs_a_raise_only_where_the_base_is_full():
    one = up(running=2)
    assert [cap_needs(one, {A: 3}, running) for running in (2, 3, 4)] == [False, True, True]
    assert not cap_needs(one, {}, 9)
    assert not cap_needs(up(requests=2), {A: 3}, 9)


def test_a_job_needs_the_raise_of_what_it_lacks():
    rates = {A: Rate(requests=3, tokens=10)}
    requests, tokens = up(requests=1), up(tokens=5)
    assert (rate_needs(requests, rates, (3, 1), 1), rate_needs(tokens, rates, (3, 1), 1)) == (
        True, False,
    )  # fmt: skip
    assert (rate_needs(requests, rates, (1, 8), 3), rate_needs(tokens, rates, (1, 8), 3)) == (
        False, True,
    )  # fmt: skip
    assert not rate_needs(tokens, {}, (9, 99), 3)


raises_drawn = st.lists(
    st.builds(
        up,
        key=st.sampled_from([A, B]),
        starts_at=st.integers(0, 9).map(float),
        ends_at=st.integers(0, 9).map(float),
        running=st.integers(0, 3),
    )
)


@given(raises=raises_drawn, now=st.integers(0, 9).map(float))
def test_what_is_in_force_is_the_same_until_the_moment_that_is_named(raises, now):
    until = changes_at(raises, now)
    assert until > now
    for later in (now + half / 2 for half in range(1, 20)):
        if later < until:
            assert in_force(raises, later) == in_force(raises, now)
    moments = {at for one in raises for at in (one.starts_at, one.ends_at)}
    assert until == min((at for at in moments if at > now), default=inf)
    caps = caps_raised({A: 1}, in_force(raises, now))
    extra = sum(r.running for r in raises if r.key == A and r.starts_at <= now < r.ends_at)
    assert caps == {A: 1 + extra}

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.retry import (
    SPAN_S,
    Failure,
    RetryBudget,
    RetrySettings,
    backoff_s,
    budget_left,
    decide,
    sane_wait_s,
)
from scheduling.core.types import Reason

SETTINGS = RetrySettings(max_attempts=3, base_s=2, cap_s=30)
NOW = 1000.0


def verdict(failure, jitter=0.0):
    return decide(failure, now=NOW, settings=SETTINGS, jitter=jitter)


def test_the_backoff_doubles_up_to_its_cap():
    assert [backoff_s(n, SETTINGS) for n in range(6)] == [2, 4, 8, 16, 30, 30]
    assert backoff_s(10_000, SETTINGS) == 30


def test_half_of_the_backoff_is_certain_and_half_is_jitter():
    assert verdict(Failure(retryable=True, tries=1)).not_before == NOW + 2
    assert verdict(Failure(retryable=True, tries=1), 0.5).not_before == NOW + 3


def test_a_fault_that_a_retry_cannot_mend_is_not_retried():
    decision = verdict(Failure(retryable=False))
    assert (decision.retry, decision.reason) == (False, Reason.EXECUTION_ERROR)
    assert decision.not_before is None


def test_the_last_try_of_the_policy_or_of_the_job_is_the_last():
    assert verdict(Failure(retryable=True, tries=1)).retry
    assert verdict(Failure(retryable=True, tries=2)).reason is Reason.ATTEMPTS_EXHAUSTED
    assert verdict(Failure(retryable=True, tries=2, max_attempts=4)).retry
    assert not verdict(Failure(retryable=True, max_attempts=1)).retry


def test_a_try_that_never_reached_the_provider_backs_off_but_is_not_counted():
    decision = verdict(Failure(retryable=True, counts_as_try=False, tries=2, unreached=1))
    assert decision.retry
    assert decision.not_before == NOW + backoff_s(3, SETTINGS) / 2


def test_a_retry_that_would_come_at_or_after_the_deadline_is_not_made():
    late = verdict(Failure(retryable=True, deadline=NOW + 1))
    assert (late.retry, late.reason) == (False, Reason.DEADLINE)
    assert verdict(Failure(retryable=True, deadline=NOW + 1.01)).retry


def test_a_retry_that_could_not_end_before_the_deadline_is_not_made():
    late = verdict(Failure(retryable=True, deadline=NOW + 11, expected_s=10))
    assert (late.retry, late.reason) == (False, Reason.DEADLINE)
    assert verdict(Failure(retryable=True, deadline=NOW + 11.01, expected_s=10)).retry


def test_the_retry_budget_is_a_share_of_the_successes_and_a_floor():
    settings = RetrySettings(budget_ratio=0.2, budget_floor=10)
    assert budget_left(successes=0, retries=9, settings=settings)
    assert not budget_left(successes=0, retries=10, settings=settings)
    assert budget_left(successes=100, retries=29, settings=settings)
    assert not budget_left(successes=100, retries=30, settings=settings)


def test_a_budget_counts_what_lies_within_its_span_and_no_more():
    budget = RetryBudget(
        RetrySettings(budget_ratio=0.5, budget_floor=1),
        retries=[NOW - SPAN_S, NOW - 10],
        successes=[(int(NOW - SPAN_S), 4), (int(NOW) - 5, 2)],
    )
    assert budget.used(NOW) == (1, 2)
    assert (budget.most(NOW), budget.has_room(NOW), budget.opens_at(NOW)) == (2, True, NOW)
    budget.retried(NOW)
    assert not budget.has_room(NOW)
    assert budget.opens_at(NOW) == NOW - 10 + SPAN_S
    budget.take_back(NOW)
    budget.take_back(NOW)
    assert budget.used(NOW) == (1, 2)
    budget.succeeded(NOW)
    budget.succeeded(NOW - 3)
    assert budget.used(NOW) == (1, 4)
    assert budget.used(NOW + SPAN_S) == (0, 0)


def test_a_provider_that_may_not_be_retried_at_all_opens_with_a_success_alone():
    budget = RetryBudget(RetrySettings(budget_ratio=1, budget_floor=0))
    assert (budget.has_room(NOW), budget.opens_at(NOW)) == (False, math.inf)
    budget.succeeded(NOW)
    assert budget.opens_at(NOW) == NOW


@given(
    steps=st.lists(st.tuples(st.sampled_from("sr"), st.floats(0, 9)), max_size=80),
    floor=st.integers(0, 5),
    ratio=st.floats(0, 1),
)
def test_no_span_ever_holds_more_retries_than_the_floor_and_the_share(steps, floor, ratio):
    settings, now = RetrySettings(budget_floor=floor, budget_ratio=ratio), NOW
    budget, retries, successes = RetryBudget(settings), [], []
    for kind, seconds in steps:
        now += seconds
        if kind == "s":
            budget.succeeded(now)
            successes.append(now)
        elif budget.has_room(now):
            budget.retried(now)
            retries.append(now)
            within = sum(one > now - SPAN_S for one in retries)
            share = ratio * sum(one > now - SPAN_S for one in successes)
            assert within - 1 < floor + share


@pytest.mark.parametrize(
    ("asked", "believed"),
    [
        (None, 0),
        (5, 5),
        (0.25, 0.25),
        (-3, 0),
        (math.nan, 0),
        (-math.inf, 0),
        (1e12, 3600),
        (math.inf, 3600),
    ],
)
def test_an_absurd_retry_after_is_made_safe(asked, believed):
    assert sane_wait_s(asked, longest_s=3600) == believed


@given(
    tries=st.integers(0, 50),
    asked=st.none() | st.floats(allow_nan=True),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_jitter_only_ever_moves_a_retry_later(tries, asked, jitter):
    failure = Failure(retryable=True, tries=tries, max_attempts=1000, retry_after_s=asked)
    plain, spread = verdict(failure), verdict(failure, jitter)
    assert spread.not_before >= plain.not_before
    floor = sane_wait_s(asked, longest_s=SETTINGS.longest_wait_s)
    half = backoff_s(tries, SETTINGS) / 2
    assert NOW + floor <= spread.not_before <= NOW + max(floor, half) + half

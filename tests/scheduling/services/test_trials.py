"""The rows of trials: one runs at a time, one that is left is given up, old ones are forgotten."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduling.models import PolicyTrial
from scheduling.services import trials
from scheduling.services.trials import (
    GIVEN_UP,
    trial_fail,
    trial_is_due,
    trial_open,
    trial_take,
)
from scheduling.tasks import control

pytestmark = pytest.mark.django_db


def ask(number: int) -> PolicyTrial:
    return trial_open(number=number, body={}, asked_by="o")


def test_trials_are_run_one_after_another_in_the_order_in_which_they_were_asked_for():
    now = timezone.now()
    assert (trial_is_due(now), trial_take(now)) == (False, None)
    first, second = ask(1), ask(2)
    assert trial_is_due(now)
    assert trial_take(now) == first.id
    assert (trial_is_due(now), trial_take(now)) == (False, None)
    assert trial_fail(first.id, sentence="no", now=now)
    assert trial_take(now) == second.id


def test_a_trial_that_was_left_is_given_up_and_can_be_asked_for_again():
    now = timezone.now()
    left = ask(1)
    trial_take(now)
    later = now + GIVEN_UP + timedelta(seconds=1)
    assert trial_is_due(later)
    assert trial_take(later) is None
    left.refresh_from_db()
    assert (left.state, left.ended_at) == ("failed", later)
    assert "ask again" in left.sentence
    assert trial_take(later) is None
    again = ask(1)
    assert again.id != left.id
    assert trial_take(later) == again.id


def test_only_the_last_trials_are_kept(monkeypatch):
    monkeypatch.setattr(trials, "KEPT_MOST", 3)
    now = timezone.now()
    for number in range(1, 6):
        one = ask(number)
        trial_take(now)
        trial_fail(one.id, sentence="no", now=now)
    assert list(PolicyTrial.objects.values_list("number", flat=True)) == [5, 4, 3]


@pytest.mark.django_db(transaction=True)
def test_a_run_that_breaks_off_fails_its_trial(monkeypatch):
    class Broken:
        returncode = 1

    ran = []
    monkeypatch.setattr(control.subprocess, "run", lambda argv, **_: ran.append(argv) or Broken)
    one, two = ask(1), ask(2)
    control.trials_run()
    assert [argv[-2:] for argv in ran] == [["policy_trial", str(row.id)] for row in (one, two)]
    one.refresh_from_db()
    assert (one.state, one.sentence) == ("failed", control.TRIAL_BROKEN)


@pytest.mark.django_db(transaction=True)
def test_a_run_that_takes_too_long_is_ended(monkeypatch):
    def forever(argv, **more):
        raise control.subprocess.TimeoutExpired(argv, more["timeout"])

    monkeypatch.setattr(control.subprocess, "run", forever)
    one = ask(1)
    control.trials_run()
    one.refresh_from_db()
    assert one.state == "failed"

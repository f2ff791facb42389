"""Asking for trials of one draft: side by side, and again when the draft was rewritten."""

import pytest
from django.utils import timezone

from scheduling.controls.policies import policy_draft
from scheduling.controls.trials import policy_simulate
from scheduling.models import PolicyTrial
from scheduling.services.trials import OPEN_MOST, trial_take
from tenants.controls import ControlRefused
from tests.at_once import at_once
from tests.scheduling.factories import WHO, make_policy

pytestmark = pytest.mark.django_db


@pytest.fixture
def first(db: None) -> int:
    return make_policy(share_by="turns")


def draft(number: int | None = None, **body: object) -> int:
    return policy_draft(body=body, note="an idea", number=number, **WHO)


@pytest.mark.django_db(transaction=True)
def test_asked_for_many_times_at_once_a_version_has_one_trial(first):
    number, trials = draft(), []
    at_once([lambda: trials.append(policy_simulate(number=number, **WHO))] * 8)
    assert {one.id for one in trials} == {PolicyTrial.objects.get().id}


@pytest.mark.django_db(transaction=True)
def test_asked_for_at_once_no_more_trials_are_open_than_may_be(first):
    numbers, refused = [draft() for _ in range(OPEN_MOST + 3)], []

    def ask(number: int) -> None:
        try:
            policy_simulate(number=number, **WHO)
        except ControlRefused:
            refused.append(number)

    at_once([lambda number=number: ask(number) for number in numbers])
    assert (PolicyTrial.objects.count(), len(refused)) == (OPEN_MOST, 3)


def test_a_trial_that_is_not_begun_tries_what_the_draft_was_rewritten_to(first):
    number = draft(age_limit=3)
    trial = policy_simulate(number=number, **WHO)
    assert draft(number, age_limit=4) == number
    again = policy_simulate(number=number, **WHO)
    trial.refresh_from_db()
    assert (again.id, trial.body["age_limit"]) == (trial.id, 4)


def test_a_trial_of_the_draft_as_it_was_is_no_answer_while_it_runs(first):
    number = draft(age_limit=3)
    trial = policy_simulate(number=number, **WHO)
    trial_take(timezone.now())
    assert policy_simulate(number=number, **WHO).id == trial.id
    draft(number, age_limit=4)
    with pytest.raises(ControlRefused, match="as it was before still runs"):
        policy_simulate(number=number, **WHO)
    trial.refresh_from_db()
    assert trial.body["age_limit"] == 3

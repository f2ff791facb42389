"""What the database itself refuses to store of jobs and attempts."""

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Model
from django.utils import timezone

from scheduling.core.states import AttemptState, JobState
from scheduling.models import Attempt, Job, Pool
from scheduling.models.attempt import ENDED as ENDED_ATTEMPTS
from scheduling.models.attempt import LIVE as LIVE_ATTEMPTS
from scheduling.models.job import ENDED, LIVE
from tests.scheduling.factories import make_tenant, submit
from tests.scheduling.governor.desk import Desk

NOT_NEGATIVE = {
    Job: [
        "fence", "step", "step_fence", "tries", "preemptions", "depth", "input_tokens",
        "output_tokens", "max_tokens", "expected_s",
    ],
    Attempt: ["step", "cost", "lifts", "workspace_lifts", "sends", "charge", "charge_due"],
}  # fmt: skip
POSITIVE = {Job: ["cost", "max_attempts"], Attempt: ["fence"]}


@pytest.fixture
def rows(desk: Desk, pool: Pool) -> dict[type[Model], Model]:
    """Return a job that runs, and its attempt."""
    submit(make_tenant("acme", pool), 1)
    desk.turn()
    return {Job: Job.objects.get(), Attempt: Attempt.objects.get()}


def refuses(row: Model, **values: object) -> bool:
    """Tell whether the row may not have these values."""
    try:
        with transaction.atomic():
            type(row)._default_manager.filter(pk=row.pk).update(**values)  # type: ignore[attr-defined]
            transaction.set_rollback(True)
    except IntegrityError:
        return True
    return False


def test_counts_and_amounts_are_not_negative(rows: dict[type[Model], Model]) -> None:
    for model, names in NOT_NEGATIVE.items():
        assert [name for name in names if not refuses(rows[model], **{name: -1})] == []
        assert [name for name in names if refuses(rows[model], **{name: 1})] == []
    for model, names in POSITIVE.items():
        assert [name for name in names if not refuses(rows[model], **{name: 0})] == []
        assert [name for name in names if refuses(rows[model], **{name: 2})] == []


def test_what_is_unknown_is_not_negative_either(rows: dict[type[Model], Model]) -> None:
    assert not refuses(rows[Job], max_tokens=None, cost=None, expected_s=None)
    assert not refuses(rows[Attempt], charge_due=None)


def test_a_state_is_one_of_the_known_and_has_an_end_if_it_is_one(
    rows: dict[type[Model], Model],
) -> None:
    now = timezone.now()
    assert sorted([*LIVE, *ENDED]) == sorted(JobState)
    assert sorted([*LIVE_ATTEMPTS, *ENDED_ATTEMPTS]) == sorted(AttemptState)
    for model, end, live, ended in (
        (Job, "finished_at", LIVE, ENDED),
        (Attempt, "ended_at", LIVE_ATTEMPTS, ENDED_ATTEMPTS),
    ):
        for at, fit, unfit in ((None, live, ended), (now, ended, live)):
            begun = {"started_at": now} if model is Attempt else {}
            fits = [one for one in fit if not refuses(rows[model], state=one, **{end: at}, **begun)]
            wrong = [
                one for one in unfit if not refuses(rows[model], state=one, **{end: at}, **begun)
            ]
            assert (fits, wrong) == (fit, [])
            assert refuses(rows[model], state="unheard", **{end: at}, **begun)

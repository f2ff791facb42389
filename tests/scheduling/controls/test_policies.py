"""Policies as people change them: drafted, published with a note, rolled back, never rewritten."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from scheduling.controls.policies import (
    PolicyConflict,
    policy_draft,
    policy_publish,
    policy_roll_back,
    policy_validate,
)
from scheduling.core.policy.document import InvalidPolicy
from scheduling.models import PolicyVersion
from scheduling.selectors.policy import active_policy
from tenants.controls import ControlRefused, control_number
from tenants.models import AuditEntry
from tests.scheduling.factories import WHO, make_policy

pytestmark = pytest.mark.django_db

NOTE = {"note": "because", "acting_user": "ann"}


@pytest.fixture
def first(db: None) -> int:
    """The number of a version in force that shares by turns."""
    return make_policy(share_by="turns")


def draft(note: str = "an idea", **body: Any) -> int:
    return policy_draft(body=body, note=note, **WHO)


def refused(kind: type[Exception], call: Callable[[], Any], told: str | None = None) -> None:
    """Check that a lever refuses with that sentence and leaves nothing behind."""
    before = list(PolicyVersion.objects.values()), control_number()
    with pytest.raises(kind, match=told):
        call()
    assert (list(PolicyVersion.objects.values()), control_number()) == before


def test_a_draft_is_kept_and_audited_and_not_in_force(first: int) -> None:
    number = draft(share_by="turns", age_limit=3)
    row = PolicyVersion.objects.get(number=number)
    assert (row.state, row.note, row.author, row.published_at) == ("draft", "an idea", "root", None)
    assert active_policy().number == first
    entry = AuditEntry.objects.get(number=control_number())
    assert (entry.action, entry.target_id, entry.reason) == ("policy_draft", str(number), "test")
    assert (entry.before, entry.after) == ({"age_limit": 10}, {"age_limit": 3})


def test_a_draft_is_rewritten_under_its_number_until_it_is_overtaken(first: int) -> None:
    number = draft(age_limit=3)
    again = {"body": {"age_limit": 4}, "note": "better", "number": number}
    assert policy_draft(**again, **WHO) == number
    assert AuditEntry.objects.get(number=control_number()).before == {"age_limit": 3}
    assert PolicyVersion.objects.get(number=number).note == "better"
    later = make_policy()
    assert policy_draft(**again, **WHO) == later + 1
    assert not PolicyVersion.objects.filter(number=number).exists()


def test_publishing_a_draft_puts_it_in_force_under_its_number(first: int) -> None:
    number = draft(share_by="tokens")
    assert policy_publish(number=number, **NOTE) == number
    assert (active_policy().number, active_policy().share_by) == (number, "tokens")
    row = PolicyVersion.objects.get(number=number)
    assert (row.state, row.note, row.author) == ("active", "because", "root")
    entry = AuditEntry.objects.get(number=control_number())
    assert (entry.actor, entry.action, entry.reason) == ("ann", "policy_publish", "because")
    assert (entry.before, entry.after) == ({"active": first}, {"active": number})


def test_a_draft_that_a_later_version_has_overtaken_is_not_published(first: int) -> None:
    number = draft()
    make_policy()
    refused(PolicyConflict, lambda: policy_publish(number=number, **NOTE), "later version")


def test_settings_are_published_only_over_the_version_that_was_looked_at(first: int) -> None:
    second = policy_publish(body={}, over=first, **NOTE)
    refused(PolicyConflict, lambda: policy_publish(body={}, over=first, **NOTE), "meanwhile")
    assert policy_publish(body={}, over=second, **NOTE) == second + 1


def test_a_roll_back_publishes_the_old_settings_anew(first: int) -> None:
    second = make_policy(share_by="cost")
    third = policy_roll_back(number=first, **NOTE)
    assert third == second + 1
    assert (active_policy().number, active_policy().share_by) == (third, "turns")
    old, new = (PolicyVersion.objects.get(number=one).body for one in (first, third))
    assert new == old | {"number": third}
    entry = AuditEntry.objects.get(number=control_number())
    assert entry.action == "policy_roll_back"
    assert entry.after == {"active": third, "settings_of": first}


def test_neither_a_draft_nor_the_version_in_force_is_rolled_back_to(first: int) -> None:
    number = draft()
    refused(PolicyConflict, lambda: policy_roll_back(number=number, **NOTE), "publish it")
    refused(PolicyConflict, lambda: policy_roll_back(number=first, **NOTE), "in force already")


def test_a_published_version_is_neither_published_again_nor_rewritten(first: int) -> None:
    refused(PolicyConflict, lambda: policy_publish(number=first, **NOTE), "never changes")
    rewrite = {"body": {}, "note": "x", "number": first}
    refused(PolicyConflict, lambda: policy_draft(**rewrite, **WHO), "never changes")


@pytest.mark.parametrize(
    "lever",
    [
        lambda n: policy_publish(number=n, **NOTE),
        lambda n: policy_roll_back(number=n, **NOTE),
        lambda n: policy_draft(body={}, note="", number=n, **WHO),
    ],
)
def test_an_unknown_version_is_said_to_be_unknown(first: int, lever: Callable[[int], int]) -> None:
    refused(PolicyVersion.DoesNotExist, lambda: lever(999))


def test_every_lever_needs_a_reason(first: int) -> None:
    second = make_policy()
    blank = {"note": " ", "acting_user": "ann"}
    refused(ControlRefused, lambda: policy_publish(body={}, **blank), "Say why")
    refused(ControlRefused, lambda: policy_roll_back(number=first, **blank), "Say why")
    refused(
        ControlRefused,
        lambda: policy_draft(body={}, note="x", acting_user="ann", reason=""),
        "Say why",
    )
    assert active_policy().number == second


def test_a_draft_is_published_with_other_settings_than_it_had(first: int) -> None:
    number = draft(age_limit=3)
    assert policy_publish(number=number, body={"age_limit": 4}, **NOTE) == number
    assert active_policy().age_limit == 4
    with pytest.raises(ValueError, match="a body or"):
        policy_publish(**NOTE)


def test_a_wrong_draft_names_every_field_and_is_not_kept(first: int) -> None:
    wrong = {"share_by": "luck", "risk": {"high": {"labels": "x"}}, "default_caps": {"user": 0}}
    with pytest.raises(InvalidPolicy) as error:
        draft(**wrong)
    told = {one.field for one in error.value.errors}
    assert told == {"share_by", "risk.high.labels", "default_caps.user"}
    assert not PolicyVersion.objects.filter(state="draft").exists()


def test_validation_writes_out_every_default_and_writes_nothing(first: int) -> None:
    before = PolicyVersion.objects.count(), control_number()
    assert policy_validate({"age_limit": 1})["retry"]["max_attempts"] == 3
    assert (PolicyVersion.objects.count(), control_number()) == before


@pytest.mark.parametrize(
    "change",
    [{"body": {}}, {"note": "x"}, {"author": "x"}, {"state": "draft"}, {"published_at": None}],
)
def test_the_database_lets_nobody_change_what_is_published(
    first: int, change: dict[str, Any]
) -> None:
    make_policy()
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        PolicyVersion.objects.filter(number=first).update(**change)


def test_the_database_keeps_what_is_published_and_lets_drafts_go(first: int) -> None:
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        PolicyVersion.objects.filter(number=first).delete()
    assert PolicyVersion.objects.filter(number=draft()).delete()[0] == 1

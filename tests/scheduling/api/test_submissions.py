"""The lean reader of submissions: what each field takes, and what it says when it does not."""

from datetime import UTC, datetime

import pytest

from scheduling.api.submissions import CHECKS, fields_read, submission_read
from scheduling.services.drafts import Submission
from tests.scheduling.api.conftest import job


def test_every_field_is_read_into_the_submission():
    read = submission_read(
        job(
            model="m", mission="go", cost=3, expected_s=2, max_attempts=4, region="eu",
            deadline="2026-02-01T12:00:00+02:00", not_before="2026-01-31T12:00:00Z",
            labels=["gpu", "eu"], idempotent=False, paused=True, risk="high", **{"class": "batch"},
        )
    )  # fmt: skip
    assert read == Submission(
        workflow="build", kind="simulated", payload={"seconds": 1}, model="m", mission="go",
        job_class="batch", cost=3, expected_s=2.0, max_attempts=4, region="eu",
        deadline=datetime(2026, 2, 1, 10, tzinfo=UTC),
        not_before=datetime(2026, 1, 31, 12, tzinfo=UTC),
        labels=("gpu", "eu"), idempotent=False, paused=True, risk="high",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("workflow", 1, "at most 63 characters"),
        ("workflow", None, "at most 63 characters"),
        ("model", "x" * 201, "at most 200 characters"),
        ("payload", [], "an object"),
        ("payload", None, "an object"),
        ("cost", True, "whole number"),
        ("cost", 1.5, "whole number"),
        ("cost", "1", "not '1'"),
        ("expected_s", -1, "0 to"),
        ("expected_s", True, "0 to"),
        ("expected_s", float("nan"), "0 to"),
        ("expected_s", 10**9, "0 to"),
        ("deadline", 5, "ISO 8601"),
        ("deadline", "soon", "ISO 8601"),
        ("deadline", "2026-01-01T00:00:00", "time zone"),
        ("deadline", "1970-01-01T00:00:00Z", "1971"),
        ("deadline", "9999-12-31T23:59:59Z", "9000"),
        ("labels", ["ok", ""], "1 to 60"),
        ("labels", ["x" * 61], "1 to 60"),
        ("labels", ["x"] * 51, "at most 50"),
        ("idempotent", 1, "true or false"),
    ],
)
def test_a_wrong_value_is_refused_in_words(name, value, words):
    values, errors = fields_read({name: value}, at="jobs[17].")
    assert name not in values
    assert [error.field for error in errors] == [f"jobs[17].{name}"]
    assert words in errors[0].sentence


def test_a_long_wrong_value_is_not_echoed_whole():
    (error,) = fields_read({"cost": "x" * 10_000})[1]
    assert len(error.sentence) < 120


def test_null_is_the_same_as_left_out_for_optional_fields():
    nulls = dict.fromkeys(set(CHECKS) - {"workflow", "kind", "payload"})
    assert submission_read(job(**nulls)) == submission_read(job())

"""Rows made and inserted in sets are what Django's own constructor and inserts would make."""

from typing import Any

import pytest
from django.db import DataError, connection, transaction

from scheduling.models import Decision, Job, JobEvent
from scheduling.services.rows import row_new, table_of
from scheduling.services.stories import Told, events_write
from tenants.models import Workspace
from tests.scheduling.factories import accepted, asked, submit, submit_all

TEXTS = ["plain", 'a "b" \\c', "{1,2}", "NULL", "line\nbreak\ttab", "ümläut €"]


@pytest.mark.parametrize("model", [Job, Decision, JobEvent])
def test_a_new_row_has_the_defaults_of_the_constructor(model: Any) -> None:
    given = {"state": "queued"} if model is Job else {}
    by_hand, made = model(**given), row_new(model, **given)
    for field in model._meta.concrete_fields:
        if field.name not in ("id", "seq", "at", "submitted_at", "changed"):
            assert getattr(made, field.attname) == getattr(by_hand, field.attname), field.name


def test_two_rows_do_not_share_their_lists() -> None:
    one, other = row_new(Job), row_new(Job)
    one.labels.append("x")
    assert (other.labels, one.id != other.id) == ([], True)


def test_any_text_and_any_payload_is_stored_as_it_was_given(acme: Workspace) -> None:
    told = [{"n": 1, "t": TEXTS}, {"n": True, "t": TEXTS}, {"n": 1.0, "t": TEXTS[::-1]}]
    events = [Told(job_id=job.id, tenant_id=acme.tenant_id, event="e", data=data)
              for job, data in zip(submit(acme, 3), told, strict=True)]  # fmt: skip
    events_write(events)
    stored = JobEvent.objects.filter(event="e").order_by("id")
    assert [repr(one.data) for one in stored] == [repr(data) for data in told]


def test_labels_of_any_text_are_stored(acme: Workspace) -> None:
    submit_all(acme, [asked(labels=tuple(TEXTS)), asked()])
    assert list(Job.objects.order_by("seq").values_list("labels", flat=True)) == [TEXTS, []]


def test_text_longer_than_its_column_is_refused_and_not_cut(acme: Workspace) -> None:
    job = accepted(acme).job
    told = Told(job_id=job.id, tenant_id=acme.tenant_id, event="e" * 31)
    with pytest.raises(DataError), transaction.atomic():
        events_write([told])


def test_no_events_are_no_statement(django_assert_num_queries: Any, db: None) -> None:
    with django_assert_num_queries(0):
        events_write([])


def test_the_database_gives_what_it_alone_knows(db: None) -> None:
    assert connection.vendor == "postgresql"
    assert '"seq"' not in table_of(Job).insert
    assert '"at"' not in table_of(Decision).insert
    assert '"at"' in table_of(Decision, "at").insert

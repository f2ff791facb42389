"""Array literals mean to PostgreSQL what the values mean to us."""

import json
import uuid
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.services.sets import array, columns, json_text

pytestmark = pytest.mark.django_db
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def read_back(values, kind):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT %s::{kind}[]", [array(values)])
        return cursor.fetchone()[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(TEXT | st.sampled_from(["NULL", "null", '"', "\\", "{,}", " a ", "\n"])))
def test_any_text_reads_back(values):
    assert read_back(values, "text") == values


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("uuid", [uuid.UUID(int=7), None]),
        ("numeric", [Decimal("1E-12"), Decimal("-0.50"), 3]),
        ("timestamptz", [datetime(2026, 8, 20, 1, 2, 3, 4, tzinfo=UTC), None]),
        ("bigint", [2**40, 0]),
        ("text", []),
    ],
)
def test_values_read_back(kind, values):
    assert read_back(values, kind) == values


def test_rows_are_turned_into_columns():
    assert columns([(1, "a"), (2, None)]) == ["{1,2}", '{"a",NULL}']


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_json_reads_back_half_a_surrogate_pair_included(value):
    assert json.loads(json_text(value)) == value


def test_an_amount_is_written_as_text_and_keys_of_any_plain_type():
    assert json.loads(json_text({"spend": Decimal("1.50")})) == {"spend": "1.50"}
    assert json.loads(json_text({True: 1, 2: 3})) == {"true": 1, "2": 3}

"""What the boards' event lines say of an event: short, safe, and money as plain numbers."""

import pytest

from scheduling.models import JobEvent, Pool
from scheduling.selectors.events import events_after
from tests.scheduling.factories import (
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_tenant,
    submit,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool() -> Pool:
    make_policy()
    make_price(output="1")
    pool = make_pool()
    make_executor(pool)
    return pool


@pytest.mark.parametrize(
    ("data", "note"),
    [
        ({}, ""),
        ([], ""),
        ({"spend": "0"}, ""),
        ({"spend": "0.000000000000"}, ""),
        ({"spend": "5.0000E-8"}, "$0.00000005"),
        ({"spend": "12.500000"}, "$12.5"),
        ({"spend": "100"}, "$100"),
        ({"spend": "a lot"}, ""),
        ({"spend": "0.5", "step": 3}, "step 3, $0.5"),
        ({"step": "3"}, ""),
        ({"executor": "gpu-1", "spend": "0.25", "message": "secret"}, "on gpu-1, $0.25"),
    ],
)
def test_a_line_names_the_executor_and_the_money_in_plain_numbers(
    pool: Pool, data: object, note: str
) -> None:
    job = submit(make_tenant("acme", pool))[0]
    last = JobEvent.objects.order_by("-id").values_list("id", flat=True)[0]
    JobEvent.objects.create(job=job, tenant_id=job.tenant_id, event="finished", data=data)
    assert [line.note for line in events_after(last)] == [note]


def test_events_that_are_known_already_are_not_read_again(pool: Pool) -> None:
    submit(make_tenant("acme", pool), 3)
    first, *rest = events_after(0)
    assert events_after(0, ignoring={first.id}) == rest

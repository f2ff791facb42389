"""The leader places a job only where its tools, its data and its compute class are offered."""

from typing import Any

import pytest

from scheduling.models import Attempt, Pool
from scheduling.services.drafts import After
from tests.scheduling.factories import make_executor, make_tenant, submit
from tests.scheduling.governor.desk import Desk

OFFERS: dict[str, Any] = {
    "tools": ["web", "shell"], "data_classes": ["open", "secret"], "compute_class": "gpu",
}  # fmt: skip


@pytest.mark.parametrize(
    "asks", [{"tools": ("shell",)}, {"data_class": "secret"}, {"compute_class": "gpu"}]
)
def test_a_job_is_placed_where_its_constraint_is_met(
    desk: Desk, pool: Pool, asks: dict[str, Any]
) -> None:
    make_executor(pool, "a-plain")
    make_executor(pool, "z-able", **OFFERS)
    (job,) = submit(make_tenant("acme", pool), 1, **asks)
    desk.turn()
    assert Attempt.objects.get(job=job).executor.slug == "z-able"


def test_a_dependant_is_placed_after_what_it_waits_for(desk: Desk, pool: Pool) -> None:
    space = make_tenant("acme", pool)
    (first,) = submit(space)
    (second,) = submit(space, after=(After(job=first.id),))
    assert desk.turn() == [str(first.id)]
    assert desk.turn() == []
    desk.finish()
    assert desk.turn() == [str(second.id)]

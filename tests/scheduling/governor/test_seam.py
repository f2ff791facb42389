"""The setting QUEUE_POLICY: a house's own rules in admission and in the governor."""

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from msgspec.structs import replace

from scheduling.core.admission import Facts
from scheduling.core.policy.seam import BUILT_IN, QueuePolicy
from scheduling.core.types import Verdict
from scheduling.models import Attempt, Pool
from scheduling.selectors.seam import admit, queue_policy
from tests.scheduling.core.test_policy_seam import NightShift
from tests.scheduling.factories import make_executor, make_tenant, submit
from tests.scheduling.governor.desk import Desk


class BatchLast(NightShift):
    """An example: all work of the workflow `build` stands in the last class."""

    def order(self, job: Any) -> Any:
        return replace(super().order(job), class_name="batch")


def use(settings: Any, kind: type) -> None:
    settings.QUEUE_POLICY = f"{kind.__module__}.{kind.__qualname__}"


def test_the_governor_orders_charges_and_places_by_the_custom_policy(
    pool: Pool, desk: Desk, settings: Any
) -> None:
    use(settings, BatchLast)
    make_executor(pool, "zzz")
    job = submit(make_tenant("acme", pool))[0]
    assert desk.turn() == [str(job.id)]
    attempt = Attempt.objects.get()
    assert (attempt.job_class, attempt.charge) == ("batch", 2)
    last = max(str(one) for one in pool.executors.values_list("id", flat=True))
    assert str(attempt.executor_id) == last


def test_admission_asks_the_custom_policy(settings: Any) -> None:
    dear = Facts(now=0, cost=6, most=9)
    assert admit(dear).verdict is Verdict.QUEUED
    use(settings, NightShift)
    assert admit(dear).verdict is Verdict.DENIED


def test_without_the_setting_the_built_in_rules_hold(settings: Any) -> None:
    settings.QUEUE_POLICY = ""
    assert queue_policy() is BUILT_IN


def test_the_custom_policy_is_made_once(settings: Any) -> None:
    use(settings, NightShift)
    assert queue_policy() is queue_policy()
    assert isinstance(queue_policy(), QueuePolicy)


@pytest.mark.parametrize("path", ["nowhere.Policy", "scheduling.models.Job", "plain"])
def test_a_setting_that_names_no_queue_policy_says_so(settings: Any, path: str) -> None:
    settings.QUEUE_POLICY = path
    with pytest.raises(ImproperlyConfigured, match=path):
        queue_policy()

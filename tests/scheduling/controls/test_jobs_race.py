"""Bulk levers beside submissions and settlements, each on a connection of its own."""

import pytest
from django.utils import timezone

from billing.models import Balance
from billing.services.checks import balances_differ
from scheduling.controls.jobs import jobs_cancel
from scheduling.models import Job, Workflow
from tenants.models import Workspace
from tests.at_once import at_once
from tests.scheduling.factories import (
    WHO,
    asked,
    make_budget,
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_tenant,
    make_workflow,
    submit,
    submit_all,
)

WORKFLOWS = 6
ROUNDS = 10


@pytest.fixture
def acme(transactional_db: None) -> Workspace:
    """A workspace whose workflows have a budget each."""
    make_policy()
    make_price(output="1")
    pool = make_pool()
    make_executor(pool)
    space = make_tenant("acme", pool)
    for number in range(WORKFLOWS):
        flow = make_workflow(space.tenant, pool, f"flow-{number}")
        make_budget(space, "1000000", scope="workflow", scope_id=flow.id)
    return space


def test_a_bulk_cancel_locks_no_budgets_in_a_circle_with_anybody(acme: Workspace) -> None:
    """The jobs arrive in the reverse order of their balances, which others lock by id."""
    slugs = [f"flow-{number}" for number in range(WORKFLOWS)]
    submit_all(acme, [asked(workflow=slug) for slug in slugs])
    flows = {str(flow.id): flow.slug for flow in Workflow.objects.all()}
    balances = Balance.objects.order_by("-id").select_related("budget")
    slugs = [flows[balance.budget.scope_id] for balance in balances]

    def cancel() -> None:
        for _ in range(ROUNDS):
            jobs = [submit(acme, workflow=slug)[0].id for slug in slugs]
            jobs_cancel(job_ids=jobs, now=timezone.now(), **WHO)

    def hold() -> None:
        for _ in range(ROUNDS):
            submit_all(acme, [asked(workflow=slug) for slug in slugs])

    at_once([cancel, cancel, hold, hold])
    assert Job.objects.filter(state="canceled").count() == 2 * ROUNDS * WORKFLOWS
    assert Job.objects.filter(state="queued").count() == (2 * ROUNDS + 1) * WORKFLOWS
    assert balances_differ() == []

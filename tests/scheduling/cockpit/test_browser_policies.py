"""The policy's form in the admin, in a real browser: usable, labelled, nothing the CSP refuses."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, expect

from scheduling.controls.policies import policy_draft
from scheduling.management.commands.policy_trial import trial_run
from scheduling.models import PolicyTrial, PolicyVersion
from scheduling.services.trials import trial_take
from tests.scheduling.cockpit.conftest import People
from tests.scheduling.cockpit.pages import DESK, NEEDS_CHROMIUM, Server, Visitor
from tests.scheduling.factories import (
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_tenant,
    make_worker,
    submit,
)

pytestmark = NEEDS_CHROMIUM


@pytest.fixture
def number(people: People) -> int:
    """The number of a published version; its operator may enter the admin."""
    people.olga.is_staff = True
    people.olga.save()
    return make_policy()


def test_an_operator_corrects_and_publishes_a_policy(
    number: int, server: Server, chromium: Browser
) -> None:
    visitor = Visitor(chromium, server, "olga", viewport=DESK)
    page = visitor.page
    page.goto(server.url + reverse("admin:scheduling_policyversion_change", args=[number]))
    page.locator("[name=share_by]").select_option("turns")
    page.locator("[name=age_limit]").fill("100001")
    page.locator("[name=note]").fill("fairer by turns")
    publish = page.get_by_role("button", name="Publish as a new version")
    publish.click()
    expect(page.locator(".errorlist")).to_contain_text("less than or equal to 100000")
    page.locator("[name=age_limit]").fill("7")
    page.locator("[name=classes-4-ORDER]").fill("4")
    page.locator("[name=classes-3-ORDER]").fill("5")
    publish.click()
    expect(page.locator(".messagelist")).to_contain_text(f"Version {number + 1} is in force.")
    expect(page.locator("[name=share_by]")).to_have_value("turns")
    expect(page.locator("[name=age_limit]")).to_have_value("7")
    expect(page.locator("[name=classes-3-name]")).to_have_value("batch")
    expect(page.locator("[name=classes-4-name]")).to_have_value("normal")
    assert visitor.faults == []
    assert visitor.axe() == []


@pytest.fixture
def tried(number: int) -> int:
    """The number of a draft that shares by turns, and a backlog of two tenants to try it on."""
    make_price(output="1")
    pool = make_pool("p-trial", budget=3)
    make_executor(pool)
    make_worker()
    for slug, cost in (("big", 2), ("small", 1)):
        submit(make_tenant(slug, pool, cost=cost, expected_s=30.0), 20)
    body = {"share_by": "turns"}
    return policy_draft(body=body, note="by turns", acting_user="olga", reason="test")


def aside(work: Callable[[], Any]) -> Any:
    """Work with the database in a thread of its own: the browser's has an event loop."""
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(work).result()
        thread.submit(lambda: connection.close()).result()  # of that thread
    return found


def run_next() -> None:
    trial_run(PolicyTrial.objects.get(id=trial_take(timezone.now())))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_operator_tries_a_draft_on_the_live_backlog_and_publishes_nothing(
    tried: int, server: Server, chromium: Browser, scheme: str
) -> None:
    visitor = Visitor(chromium, server, "olga", viewport=DESK, color_scheme=scheme)
    page = visitor.page
    page.goto(server.url + reverse("admin:scheduling_policyversion_change", args=[tried]))
    page.get_by_role("button", name="Try the saved draft on the live backlog").click()
    expect(page.get_by_role("status")).to_contain_text("waiting for its turn")
    assert visitor.axe() == []
    aside(run_next)
    expect(page.get_by_text("Nothing was changed; publishing is a separate step")).to_be_visible()
    tenants = page.get_by_role("region", name="All pools: Tenants")
    row = tenants.get_by_role("row", name="small (weight 1)")
    expect(row.get_by_role("cell").nth(1)).to_contain_text("then")
    assert row.locator("svg.bars").count() == 3
    expect(page.get_by_role("region", name="Settings that differ")).to_contain_text("share_by")
    expect(page.get_by_role("region", name="All pools: Jobs that move furthest")).to_be_visible()
    assert aside(lambda: PolicyVersion.objects.get(number=tried).state) == "draft"
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert visitor.axe() == []
    assert visitor.faults == []
    page.get_by_role("link", name=f"Version {tried}").click()
    expect(page.get_by_text("Tried on the live backlog:")).to_be_visible()

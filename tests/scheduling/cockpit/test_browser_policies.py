"""The policy's form in the admin, in a real browser: usable, labelled, nothing the CSP refuses."""

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, expect

from tests.scheduling.cockpit.conftest import People
from tests.scheduling.cockpit.pages import DESK, NEEDS_CHROMIUM, Server, Visitor
from tests.scheduling.factories import make_policy

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

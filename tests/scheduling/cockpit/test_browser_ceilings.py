"""Limits and budgets on the board in a real browser: the lists of them, and their levers."""

import re
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from billing.models import Budget
from billing.services.budgets import Ceiling, budget_set
from scheduling.models import Job, Limit, Pool
from tenants.models import AuditEntry, Membership, Tenant, Workspace
from tests.scheduling.cockpit import test_levers
from tests.scheduling.cockpit.boards import Story
from tests.scheduling.cockpit.conftest import People, Publish
from tests.scheduling.cockpit.pages import DESK, NEEDS_CHROMIUM, Server, Visitor
from tests.scheduling.cockpit.test_levers import Levers, asked
from tests.scheduling.factories import WHO, make_executor, make_price

pytestmark = NEEDS_CHROMIUM
story, board = test_levers.story, test_levers.board


@pytest.fixture(autouse=True)
def gpu(story: Story) -> None:
    """The executor that the board shows, of the provider `shop`."""
    make_price("shop", input="1")
    make_executor(Pool.objects.get(), "gpu-a", slots=4, provider="shop")


def line(page: Page, name: str) -> Locator:
    """Return the line of the list with that name."""
    exact = page.locator(".name").get_by_text(name, exact=True)
    return page.locator("#ceilings-list > li").filter(has=exact)


def choose(page: Page, name: str, words: str) -> None:
    line(page, name).locator("[data-lever]").click()
    page.get_by_role("menuitem", name=words).click()


def limits() -> Any:
    return asked(lambda: list(Limit.objects.values_list("scope", "scope_id", "measure", "value")))


def newest() -> Any:
    rows = AuditEntry.objects.order_by("-number")
    return asked(lambda: rows.values_list("action", "actor", "reason").first())


def test_a_providers_limit_is_set_and_lifted_where_its_executor_stands(board: Visitor) -> None:
    page, levers = board.page, Levers(board)
    levers.menu("executor", "Limits")
    rate = "Provider shop, requests a minute"
    expect(page.locator("#ceilings-list > li")).to_have_count(4)
    expect(line(page, rate)).to_contain_text("no limit")
    choose(page, rate, "Set")
    page.fill("#lever-value", "30")
    levers.go()
    levers.done("The limit is set. Change ")
    expect(page.locator("#lever-done")).to_be_visible()
    expect(line(page, rate)).to_contain_text("0 of 30")
    expect(line(page, rate).locator("[data-lever]")).to_be_focused()
    assert limits() == [("provider", "shop", "requests_a_minute", 30)]
    assert newest() == ("limit_set", "olga", "too loud")
    choose(page, rate, "Set")
    expect(page.locator("#lever-value")).to_have_value("30")
    page.fill("#lever-value", "")
    levers.go()
    expect(line(page, rate)).to_contain_text("no limit")
    assert limits() == []
    page.keyboard.press("Escape")
    expect(page.locator("#ceilings")).to_be_hidden()
    expect(page.locator("[data-lever=executor]").first).to_be_focused()
    assert board.faults == []


def test_the_gauge_a_tenant_and_a_job_have_limits_too(board: Visitor) -> None:
    page, levers = board.page, Levers(board)
    asked(lambda: Job.objects.update(keys=["db"]))
    page.locator("[data-lever=limits]").click()
    for name, value in [("Pool 0-cockpit", "6"), ("All pools", "7")]:
        choose(page, f"{name}, running at once", "Set")
        page.fill("#lever-value", value)
        levers.go()
        expect(line(page, f"{name}, running at once")).to_contain_text(f"0 of {value}")
    page.click("#ceilings-close")
    levers.menu("tenant", "Limits")
    choose(page, "Acme Works, tokens a minute", "Set")
    page.fill("#lever-value", "1000000")
    levers.go()
    expect(line(page, "Acme Works, tokens a minute")).to_contain_text("0 of 1,000,000")
    page.click("#ceilings-close")
    levers.menu("job", "Limits")
    for name in ("Submitter vera", "Concurrency key db"):
        choose(page, f"{name}, running at once", "Set")
        page.fill("#lever-value", "2")
        levers.go()
        expect(line(page, f"{name}, running at once")).to_contain_text("0 of 2")
    pool, acme = asked(lambda: (Pool.objects.get().id, Tenant.objects.get(slug="acme").id))
    assert set(limits()) == {
        ("pool", str(pool), "running", 6), ("global", "all", "running", 7),
        ("tenant", str(acme), "tokens_a_minute", 1_000_000),
        ("user", "vera", "running", 2), ("key", "db", "running", 2),
    }  # fmt: skip
    assert board.faults == []


def test_a_limit_and_a_cap_are_raised_for_a_time_and_the_raise_ended(board: Visitor) -> None:
    page, levers, name = board.page, Levers(board), "Pool 0-cockpit, running at once"
    pool = asked(lambda: str(Pool.objects.get().id))
    asked(lambda: Limit.objects.create(scope="pool", scope_id=pool, measure="running", value=3))
    page.locator("[data-lever=limits]").click()
    choose(page, name, "Raise for a time")
    page.fill("#lever-extra", "2")
    page.fill("#lever-ends_at", "0.5")
    levers.go("launch day")
    expect(line(page, name)).to_contain_text("0 of 5")
    expect(line(page, name)).to_contain_text(re.compile(r"Raised by 2 until .*: launch day\."))
    choose(page, name, "End the raise by 2")
    levers.go("it is over")
    expect(line(page, name)).to_contain_text("0 of 3")
    expect(line(page, name)).not_to_contain_text("Raised")
    page.click("#ceilings-close")
    levers.menu("job", "Limits")
    cap = "Workspace acme/main, running at once"
    expect(line(page, cap)).to_contain_text("no cap of its own")
    for words, field in (("Set", "max_running"), ("Raise for a time", "extra")):
        choose(page, cap, words)
        expect(page.locator(f"#lever-{field}")).to_have_value("")
        page.fill(f"#lever-{field}", "4")
        levers.go()
        levers.done("The ")
    expect(line(page, cap)).to_contain_text("at most 8 now")
    choose(page, cap, "Set")
    expect(page.locator("#lever-max_running")).to_have_value("4")
    page.keyboard.press("Escape")
    choose(page, cap, "End the raise")
    levers.go()
    expect(line(page, cap)).to_contain_text(re.compile("at most 4$"))
    assert asked(lambda: Workspace.objects.get(tenant__slug="acme").max_running) == 4
    assert board.faults == []


def test_a_budget_is_made_changed_raised_for_a_time_and_the_raise_ended(board: Visitor) -> None:
    page, levers = board.page, Levers(board)
    levers.menu("tenant", "Budgets")
    expect(page.locator("#ceilings-note")).to_contain_text("No budget is set")
    page.click("#ceilings-add")
    page.locator("#lever-scope").select_option("workspace")
    page.fill("#lever-of", "nowhere")
    page.fill("#lever-limit", "12.50")
    levers.go()
    expect(page.locator("#lever-fault")).to_contain_text("There is no workspace 'nowhere'")
    page.fill("#lever-of", "main")
    levers.go()
    name = "workspace main, US dollars a month"
    expect(line(page, name)).to_contain_text("12.5 left of 12.5")
    choose(page, name, "Set limit")
    expect(page.locator("#lever-limit")).to_have_value("12.5")
    page.fill("#lever-limit", "20.25")
    levers.go()
    expect(line(page, name)).to_contain_text("20.25 left of 20.25")
    choose(page, name, "Raise for a time")
    page.fill("#lever-extra", "5.5")
    page.fill("#lever-ends_at", "0.5")
    levers.go("launch day")
    expect(line(page, name)).to_contain_text("25.75 left of 25.75")
    expect(line(page, name)).to_contain_text(re.compile(r"Raised by 5.5 until .*: launch day\."))
    choose(page, name, "End the raise by 5.5")
    levers.go("it is over")
    expect(line(page, name)).to_contain_text("20.25 left of 20.25")
    assert newest() == ("escalation_end", "olga", "it is over")
    assert [one for one in board.faults if "400" not in one] == []


def many(acme: Tenant, count: int) -> None:
    Budget.objects.bulk_create(
        Budget(tenant=acme, scope="member", scope_id=f"m{n}", dimension="tokens", limit=9)
        for n in range(count)
    )


def test_a_list_that_has_not_all_budgets_says_so(board: Visitor) -> None:
    page, note = board.page, board.page.locator("#ceilings-note")
    asked(lambda: many(Tenant.objects.get(slug="acme"), 500))
    Levers(board).menu("tenant", "Budgets")
    expect(page.locator("#ceilings-list > li")).to_have_count(500)
    expect(note).to_be_empty()
    page.click("#ceilings-close")
    asked(lambda: Budget.objects.create(tenant=Tenant.objects.get(slug="acme"), scope="member",
                                        scope_id="one", dimension="tokens", limit=9))  # fmt: skip
    Levers(board).menu("tenant", "Budgets")
    expect(note).to_have_text(
        "There are more than these 500: GET /api/v1/budgets?tenant=acme tells them all, page by page."
    )
    expect(page.locator("#ceilings-list > li")).to_have_count(500)
    assert board.faults == []


def shared_out(acme: Tenant) -> None:
    """Give the tenant and one of its members a budget each."""
    for scope, of in (("tenant", str(acme.id)), ("member", "bob")):
        ceiling = Ceiling(tenant_id=acme.id, scope=scope, scope_id=of, dimension="tokens")
        budget_set(ceiling=ceiling, limit=Decimal(50_000), **WHO)


def test_who_manages_a_tenant_shares_out_what_is_the_tenants(
    people: People, story: Story, publish: Publish, server: Server, chromium: Browser
) -> None:
    acme = people.tenants["acme"]
    admin = {"user": people.vera, "tenant": acme, "role": "tenant_admin"}
    asked(lambda: Membership.objects.create(**admin))
    asked(partial(shared_out, acme))
    publish(story, 1)
    visitor = Visitor(chromium, server, "vera", viewport=DESK)
    visitor.first_row(0)
    page = visitor.page
    expect(page.locator("[data-lever=executor], [data-lever=limits]")).to_have_count(0)
    page.locator("[data-lever=tenant]").click()
    expect(page.get_by_role("menuitem")).to_have_text(["Budgets…"])
    page.get_by_role("menuitem").click()
    expect(line(page, "The tenant, tokens in all")).to_contain_text("50,000 left of 50,000")
    expect(line(page, "The tenant, tokens in all").locator("[data-lever]")).to_have_count(0)
    expect(line(page, "member bob, tokens in all").locator("[data-lever]")).to_have_count(1)
    page.click("#ceilings-add")
    expect(page.locator("#lever-scope option[value=tenant]")).to_have_count(0)
    assert visitor.faults == []


def test_a_list_that_cannot_be_read_says_so(board: Visitor) -> None:
    board.page.route("**/api/v1/limits", lambda route: route.abort())
    board.page.locator("[data-lever=limits]").click()
    expect(board.page.locator("#ceilings-fault")).to_have_text(
        "The server did not answer. Close this and open it again."
    )


def test_the_lists_break_no_accessibility_rule(board: Visitor) -> None:
    page, name = board.page, "Provider shop, running at once"
    provider = {"scope": "provider", "scope_id": "shop"}
    asked(lambda: Limit.objects.create(**provider, measure="running", value=3))
    looks: Any = (("light", 1440), ("dark", 390))
    for theme, width in looks:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 844})
        Levers(board).menu("executor", "Limits")
        expect(line(page, name)).to_contain_text("0 of 3")
        assert board.axe() == []
        line(page, name).locator("[data-lever]").click()
        assert board.axe() == []
        page.get_by_role("menuitem", name="Set").click()
        assert board.axe() == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
    assert board.faults == []

"""The board in a real browser."""

import threading

import pytest
from playwright.sync_api import Browser, expect

from scheduling.cockpit.viewers import with_connections_closed
from tests.scheduling.cockpit.boards import POOL, Story, Waiting, job_id, mixed
from tests.scheduling.cockpit.conftest import People, Publish
from tests.scheduling.cockpit.pages import (
    DESK,
    NEEDS_CHROMIUM,
    PASSWORD,
    PATIENCE_MS,
    Server,
    Visitor,
)

pytestmark = NEEDS_CHROMIUM


def test_a_change_reaches_the_board_and_the_panel_says_why(
    people: People, publish: Publish, server: Server, chromium: Browser
) -> None:
    story = mixed(120, ids=people.ids)
    publish(story, 1)
    visitor = Visitor(chromium, server, "olga", viewport=DESK)
    page = visitor.page
    visitor.first_row(0)
    expect(page.locator("#waiting")).to_have_text("120")
    story.waiting.append(story.waiting.pop(0))
    publish(story, 2)
    visitor.first_row(1)
    page.locator("#rows tr .reason").nth(2).click()
    expect(page.locator("#why")).to_contain_text("It is number 3; 2 jobs go before it.")
    page.keyboard.press("Escape")
    expect(page.locator("#why")).to_be_hidden()
    assert visitor.faults == []


def test_the_order_scrolls_and_filters_on_the_server(
    people: People, publish: Publish, server: Server, chromium: Browser
) -> None:
    publish(mixed(400, ids=people.ids), 1)
    visitor = Visitor(chromium, server, "olga", viewport=DESK)
    page = visitor.page
    visitor.first_row(0)
    assert page.locator("#rows tr").count() < 100
    page.locator("#order-scroll").evaluate("box => { box.scrollTop = box.scrollHeight }")
    last = page.locator(f"#rows tr[data-key='{job_id(399)}']")
    expect(last).to_be_in_viewport(timeout=PATIENCE_MS)
    expect(last).to_have_attribute("aria-rowindex", "401")
    page.fill("#filter", "tenant:acme id:0004")
    visitor.first_row(4)
    expect(page.locator("#rows tr").first.locator("td").first).to_have_text("5")
    page.fill("#filter", "colour:red")
    expect(page.locator("#filter-fault")).to_contain_text("Unknown filter key")
    page.fill("#filter", "tenant:nobody")
    page.click("#clear-filter")
    visitor.first_row(0)
    assert visitor.faults == []


def test_updates_wait_while_paused(
    people: People, publish: Publish, server: Server, chromium: Browser
) -> None:
    story = mixed(20, ids=people.ids)
    publish(story, 1)
    visitor = Visitor(chromium, server, "olga", viewport=DESK)
    visitor.first_row(0)
    visitor.page.click("#pause")
    story.waiting.pop(0)
    publish(story, 2)
    expect(visitor.page.locator("#pause")).to_contain_text("Resume (1", timeout=PATIENCE_MS)
    visitor.first_row(0)
    visitor.page.click("#pause")
    visitor.first_row(1)


def test_a_lost_connection_is_shown_and_heals(
    people: People, publish: Publish, server: Server, chromium: Browser
) -> None:
    story = mixed(20, ids=people.ids)
    publish(story, 1)
    visitor = Visitor(chromium, server, "olga", viewport=DESK)
    visitor.first_row(0)
    server.stop()
    expect(visitor.page.locator("#lost")).to_be_visible(timeout=PATIENCE_MS)
    expect(visitor.page.locator("#lost-title")).to_contain_text("Connection lost at")
    expect(visitor.page.locator("#link-text")).to_have_text("Offline")
    story.waiting.pop(0)
    publish(story, 2)
    server.start()
    visitor.live()
    expect(visitor.page.locator("#lost")).to_be_hidden()
    visitor.first_row(1)


def test_a_viewers_raw_frames_and_page_hold_nothing_of_another_tenant(
    people: People, publish: Publish, server: Server, chromium: Browser
) -> None:
    story = mixed(12, ids=people.ids)
    story.running.append(Waiting(number=90, tenant="beta", workflow="secret-beta-flow", cost=2))
    publish(story, 1)
    visitor = Visitor(chromium, server, "vera")
    visitor.first_row(0)
    story.waiting.pop(0)
    publish(story, 2)
    visitor.first_row(2)
    expect(visitor.page.locator("#rows tr").nth(1).locator("td").first).to_have_text("4")
    seen = ("\n".join(visitor.frames) + visitor.page.content()).lower()
    assert job_id(2) in seen
    assert "beta" not in seen
    assert people.ids["beta"] not in seen
    for number in (1, 3, 5, 90):
        assert job_id(number) not in seen
    assert visitor.faults == []
    # Playwright's synchronous interface runs a loop in this thread, where Django refuses queries.
    leaving = threading.Thread(target=with_connections_closed, args=[people.seat.delete])
    leaving.start()
    leaving.join()
    expect(visitor.page.locator("h1")).to_have_text("Not permitted", timeout=PATIENCE_MS)


@pytest.mark.parametrize(
    ("theme", "width", "height"),
    [("light", 1440, 900), ("dark", 1440, 900), ("light", 390, 844), ("dark", 2560, 1300)],
)
def test_the_board_breaks_no_accessibility_rule_and_fits_the_screen(
    theme: str,
    width: int,
    height: int,
    people: People,
    publish: Publish,
    server: Server,
    chromium: Browser,
) -> None:
    story = crowded(people.ids)
    publish(story, 1)
    size = {"width": width, "height": height}
    visitor = Visitor(chromium, server, "olga", color_scheme=theme, viewport=size)
    page = visitor.page
    visitor.first_row(0)
    assert visitor.axe() == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#rows tr .reason").nth(1).click()
    expect(page.locator("#why")).to_be_visible()
    assert visitor.axe() == []
    page.goto(f"{server.url}/costs/")
    assert visitor.axe() == []
    assert visitor.faults == []
    page.locator("header form button").click()
    expect(page.locator("#door-title")).to_be_visible()
    assert visitor.axe() == []


def crowded(ids: dict[str, str]) -> Story:
    """Return a story with running, waiting and stuck jobs."""
    story = mixed(60, ids=ids)
    story.waiting.append(Waiting(number=500, start=None))
    story.running.extend([Waiting(number=90, cost=2), Waiting(number=91, tenant="beta", cost=3)])
    assert story.header(1).pool == POOL
    return story


def test_the_page_is_readable_with_javascript_off(
    people: People, publish: Publish, server: Server, chromium: Browser
) -> None:
    publish(mixed(60, ids=people.ids), 1)
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url)
    page.fill("[name=username]", "olga")
    page.fill("[name=password]", PASSWORD)
    page.click("button[type=submit]")
    expect(page.locator("noscript p")).to_contain_text("Enable JavaScript for live updates")
    expect(page.locator("#rows tr")).to_have_count(50)

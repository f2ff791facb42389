"""The forecast page in a real browser: its looks, by keyboard, in both time zones."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.scheduling.cockpit.boards import mixed
from tests.scheduling.cockpit.conftest import People, Publish
from tests.scheduling.cockpit.foretold import Past
from tests.scheduling.cockpit.pages import DESK, NEEDS_CHROMIUM, Server, Visitor

pytestmark = NEEDS_CHROMIUM
LOOKS: Any = [("light", 1440), ("dark", 390)]
WIDTHS = (390, 640, 820, 1110, 2560)


@pytest.fixture
def past(people: People) -> Past:
    return Past(people)


@pytest.mark.usefixtures("past")
def test_the_page_answers_the_keyboard_fits_every_screen_and_breaks_no_accessibility_rule(
    people: People, publish: Publish, server: Server, chromium: Browser
) -> None:
    publish(mixed(2, ids=people.ids), 1)
    visitor = Visitor(chromium, server, "olga", viewport=DESK)
    page = visitor.page
    page.click("nav.nav a[href='/forecast/']")
    page.locator("[name=by]").select_option("label")
    page.locator("[name=target_wait_s]").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("20")
    page.keyboard.press("Enter")
    expect(page.locator("#advice")).to_contain_text("For a mean wait of 20 s at most")
    expect(page.locator("#groups tbody th").first).to_have_text("gpu")
    switch(page)
    for fold in page.locator("summary").all():
        fold.focus()
        page.keyboard.press("Enter")
    expect(page.locator("#hours tbody tr")).to_have_count(24)
    expect(page.locator("#lasting tbody tr")).to_have_count(1)
    for theme, width in LOOKS:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 900})
        assert visitor.axe() == []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    assert visitor.faults == []


def switch(page: Page) -> None:
    """See that the shapes are drawn, and that times follow the switch between the zones."""
    tick = page.locator(".xs time").first
    local = tick.text_content() or ""
    page.click("#zone")
    expect(tick).not_to_have_text(local)
    expect(tick).to_have_text(re.compile(r"^[0-9]{2}:00$"))
    box = page.locator(".plot path.band").first.bounding_box()
    assert box is not None
    assert box["height"] > 5

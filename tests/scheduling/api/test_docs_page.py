"""The documentation page in a real browser: it draws itself under the strict policy."""

from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api")

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium on this machine"),
]


@pytest.fixture
def plain_static(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}


def test_the_page_lists_the_operations_without_a_console_error(plain_static, live_server):
    faults: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        page = browser.new_page()
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{live_server.url}/api/v1/docs/")
        page.wait_for_selector("text=Submit one job", timeout=20_000)
        operations = page.locator(".opblock").count()
        browser.close()
    assert operations >= 13
    assert faults == []

"""Real boards: headless Chromium pages that note when what they show has been painted.

A MutationObserver sees the page change; two animation frames later that change is on the screen.
The time is the page's own (time origin + now), which is this machine's clock.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from bench.board_sockets import SESSION_COOKIE

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
]  # fmt: skip
DESK = {"width": 1440, "height": 900}
WATCH = """
(() => {
  const clock = () => (performance.timeOrigin + performance.now()) / 1000;
  const painted = (note) => requestAnimationFrame(() => requestAnimationFrame(() => note(clock())));
  window.bench = { left: [], events: [], budget: [], opened: null, since: Number.MAX_SAFE_INTEGER };
  const rows = (records) => {
    const keys = records.flatMap((one) => [...one.removedNodes]).map((row) => row.dataset?.key)
      .filter((key) => key && !document.querySelector(`#rows tr[data-key="${key}"]`));
    if (keys.length) painted((at) => { for (const key of keys) bench.left.push([key, at]); });
    if (bench.opened === null && document.querySelector("#rows tr[data-key]"))
      painted((at) => { bench.opened = at - performance.timeOrigin / 1000; bench.since = at; });
  };
  const events = (records) => {
    const keys = records.flatMap((one) => [...one.addedNodes]).map((item) => item.dataset?.key);
    painted((at) => { for (const key of keys) bench.events.push([Number(key), at, bench.since]); });
  };
  const budget = () => {
    const words = document.querySelector("#of-budget").textContent;
    painted((at) => bench.budget.push([words, at]));
  };
  addEventListener("DOMContentLoaded", () => {
    const watch = (id, react, what) => new MutationObserver(react).observe(document.querySelector(id), what);
    watch("#rows", rows, { childList: true });
    watch("#log", events, { childList: true });
    watch("#of-budget", budget, { childList: true, characterData: true, subtree: true });
  });
})();
"""
TAKE = """
(() => {
  const noted = { ...bench };
  Object.assign(bench, { left: [], events: [], budget: [] });
  return noted;
})()
"""
SCROLL = """
(part) => new Promise((done) => {
  const box = document.querySelector("#order-scroll");
  const began = performance.now();
  box.scrollTop = part * (box.scrollHeight - box.clientHeight);
  const look = () => {
    const top = box.getBoundingClientRect().top + 60, low = box.getBoundingClientRect().bottom - 20;
    const row = (y) => document.elementFromPoint(300, y)?.closest("#rows tr");
    if (row(top) && row(low)) done((performance.now() - began) / 1000);
    else if (performance.now() - began > 10000) done(null);
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(() => requestAnimationFrame(look));
})
"""


@dataclass(slots=True, kw_only=True)
class Painted:
    """When pages showed things, in epoch seconds: jobs that left the order, events, dials.

    An event has a third number: when its page opened, for older ones were not news to it.
    """

    left: list[tuple[str, float]] = field(default_factory=list)
    events: list[tuple[int, float, float]] = field(default_factory=list)
    budget: list[tuple[str, float]] = field(default_factory=list)

    def add(self, noted: dict[str, list[Any]]) -> None:
        """Add what a page noted."""
        self.left += map(tuple, noted["left"])
        self.events += map(tuple, noted["events"])
        self.budget += map(tuple, noted["budget"])


class Pages:
    """Some open boards of one browser."""

    def __init__(self, browser: Browser, port: int) -> None:
        """Begin with none."""
        self._browser = browser
        self._url = f"http://127.0.0.1:{port}"
        self._pages: list[Page] = []

    def open(self, session: str) -> float:
        """Open a board in a fresh profile; returns the seconds until its live rows were painted."""
        context = self._browser.new_context(viewport=DESK, bypass_csp=True)  # type: ignore[arg-type]
        context.add_cookies([{"name": SESSION_COOKIE, "value": session, "url": self._url}])
        page = context.new_page()
        page.add_init_script(WATCH)
        page.goto(self._url, wait_until="commit")
        page.wait_for_function("window.bench && bench.opened !== null", timeout=30_000)
        self._pages.append(page)
        return float(page.evaluate("bench.opened"))

    def reopen(self) -> float:
        """Load the first board again, as a visitor whose browser has the files; returns seconds."""
        page = self._pages[0]
        page.goto(self._url, wait_until="commit")
        page.wait_for_function("window.bench && bench.opened !== null", timeout=30_000)
        return float(page.evaluate("bench.opened"))

    def scroll(self, part: float) -> float | None:
        """Jump to a part of the order's length and back; seconds until the rows there were seen."""
        took = self._pages[-1].evaluate(SCROLL, part)
        self._pages[-1].evaluate("document.querySelector('#order-scroll').scrollTop = 0")
        return None if took is None else float(took)

    def rest(self, seconds: float) -> None:
        """Let the pages be."""
        time.sleep(seconds)

    def painted(self) -> list[dict[str, list[Any]]]:
        """Return what each page noted since the last time."""
        return [page.evaluate(TAKE) for page in self._pages]


@contextmanager
def pages(port: int) -> Iterator[Pages]:
    """Open a browser for the length of a `with` block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        try:
            yield Pages(browser, port)
        finally:
            browser.close()

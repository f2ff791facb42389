"""What-ifs in the panel of a job in a real browser: what is told to whom, and why not."""

import json
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from scheduling.models import Job, Pool, Workflow
from tenants.models import Workspace
from tests.scheduling.cockpit.boards import Story, job_id, mixed
from tests.scheduling.cockpit.conftest import People, Publish
from tests.scheduling.cockpit.pages import DESK, NEEDS_CHROMIUM, Server, Visitor
from tests.scheduling.cockpit.test_levers import asked, control_number_asked
from tests.scheduling.factories import make_executor, make_policy, make_price, make_worker, place

pytestmark = NEEDS_CHROMIUM
MINE = 2
LOOKS: Any = [("light", 1440), ("dark", 390)]
REFUSED = [
    (401, "Log in.", "You are signed out. Sign in again to try it."),
    (403, "Ask an admin.", "You may not try this. Ask an admin."),
    (404, "None.", "The job is gone, or you may not see it any more."),
    (429, "Ask again in 2 seconds.", "Ask again in 2 seconds."),
    (503, "No policy is published.", "No policy is published."),
    (500, "", "The server answered 500."),
]
PATH = f"**/api/v1/jobs/{job_id(MINE)}/what-if"


@pytest.fixture
def story(people: People) -> Story:
    """Of eight units beta's job has seven; acme's, beta's and acme's jobs of eight units wait."""
    make_policy()
    make_price(input="1")
    pool = Pool.objects.create(slug="0-cockpit", name="Pool", budget=8, reserve=0)
    make_executor(pool, "gpu-a", slots=9)
    make_worker()
    for number, tenant in ((0, "acme"), (1, "beta"), (MINE, "acme"), (90, "beta")):
        job = waiting(people, pool, tenant, number)
        if number == 90:
            place(job, cost=7, expected_s=600.0)
    return mixed(3, ids=people.ids)


def waiting(people: People, pool: Pool, tenant: str, number: int) -> Job:
    owner = people.tenants[tenant]
    flow, _ = Workflow.objects.get_or_create(
        tenant=owner, slug="triage", defaults={"pool": pool, "name": "Triage", "cost": 8}
    )
    return Job.objects.create(
        id=job_id(number), tenant=owner, workspace=Workspace.objects.get(tenant=owner),
        workflow=flow, pool=pool, kind="simulated", job_class="normal", state="queued",
        reason="in_order", max_attempts=1, payload={}, input_tokens=0, output_tokens=0,
        submitted_by="vera",
    )  # fmt: skip


def tries(page: Page, name: str, value: str) -> None:
    """Try a value, by mouse for a class and by keyboard for a number."""
    if name == "class":
        page.locator("#if-class").select_option(value)
        page.get_by_role("button", name="Try another class").click()
        return
    page.locator(f"#if-{name}").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type(value)
    page.keyboard.press("Enter")


def told(page: Page, fact: str) -> Any:
    line = page.locator("#what-if-told dl > div")
    return line.filter(has=page.locator("dt").get_by_text(fact, exact=True)).locator("dd")


def headed(page: Page, words: str) -> None:
    expect(page.locator("#what-if-told h4")).to_contain_text(words)


def test_a_waiting_job_is_tried_otherwise_and_an_operator_is_told_whom_that_would_delay(
    story: Story, publish: Publish, server: Server, chromium: Browser
) -> None:
    publish(story, 1)
    visitor = Visitor(chromium, server, "olga", viewport=DESK)
    page, before = visitor.page, control_number_asked()
    page.locator(f"#rows tr[data-key='{job_id(MINE)}'] .reason").click()
    for name, value in (("class", "normal"), ("weight", "2"), ("budget", "8")):
        expect(page.locator(f"#if-{name}")).to_have_value(value)
    tries(page, "budget", "7")
    headed(page, "If the pool's budget were 7 units")
    expect(told(page, "Starts")).to_contain_text("never: it would not fit")
    tries(page, "weight", "9")
    headed(page, "If its tenant's weight were 9")
    tries(page, "class", "expedite")
    headed(page, "If it were of class expedite")
    expect(told(page, "Place")).to_have_text("1 now 3")
    expect(told(page, "Cost")).to_have_text("8 units")
    expect(told(page, "Moves")).to_contain_text("sooner")
    expect(told(page, "Delays of others")).to_contain_text("1 job of 1 tenant: beta, by ")
    expect(told(page, "Delays of its tenant")).to_contain_text("1 job, by ")
    for theme, width in LOOKS:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 844})
        assert visitor.axe() == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert visitor.faults == []
    refusals(page)
    job = asked(lambda: Job.objects.get(id=job_id(MINE)))
    assert (job.job_class, control_number_asked()) == ("normal", before)
    assert [one for one in visitor.faults if not one.startswith("Failed to load")] == []
    unnamed(page)
    story.waiting.pop()
    publish(story, 2)
    expect(page.locator("#what-if")).to_be_hidden()


def refusals(page: Page) -> None:
    """See each refusal said: what the API says where that is enough."""
    fault = page.locator("#what-if-fault")
    for status, detail, words in REFUSED:
        body = json.dumps({"detail": detail}) if detail else "<html>"
        page.route(PATH, partial(answered, status, body), times=1)
        tries(page, "weight", "3")
        expect(fault).to_have_text(words)
    page.route(PATH, lambda route: route.abort(), times=1)
    tries(page, "budget", "9")
    expect(fault).to_have_text("The server did not answer. Try again.")
    asked(lambda: Job.objects.filter(id=job_id(MINE)).update(paused=True))
    tries(page, "budget", "9")
    expect(fault).to_have_text("The job is paused; only one that stands in line can be tried.")
    asked(lambda: Job.objects.filter(id=job_id(MINE)).update(paused=False))


def answered(status: int, body: str, route: Route) -> None:
    route.fulfill(status=status, body=body)


def unnamed(page: Page) -> None:
    """See an answer as it goes to who is no operator, with all that cannot be told."""
    delay = {"jobs": 2, "mean_s": 60.0, "most_s": 90.0, "total_s": 120.0}
    answer = {
        "place": None, "start": None, "finish": None, "finish_low": None, "finish_high": None,
        "before": {"place": None, "start": None}, "sooner_s": None, "cost": 1,
        "delayed": {**delay, "tenants": 1, "own": {**delay, "jobs": 0}}, "never_fits": False,
        "approximate": True,
    }  # fmt: skip
    page.route(PATH, partial(answered, 200, json.dumps(answer)), times=1)
    tries(page, "weight", "5")
    words = "2 jobs of 1 tenant, by 1 m on average, 2 m at most"
    expect(told(page, "Delays of others")).to_have_text(words)
    expect(told(page, "Starts")).to_have_text("no start in sight now no start in sight")
    expect(told(page, "Place")).to_have_text("none now none")
    for fact in ("Finishes", "Finish, 80% range", "Moves"):
        expect(told(page, fact)).to_have_text("not known")
    expect(page.locator("#what-if-told")).to_contain_text("so this is approximate")

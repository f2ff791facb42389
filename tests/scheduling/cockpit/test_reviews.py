"""The reviews page: what it shows and to whom, and judging in a real browser."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client, override_settings
from django.utils import timezone
from playwright.sync_api import Browser, expect

from scheduling.cockpit.reviews import LONGEST, SHORT, in_words, passage
from scheduling.models import Attempt, Job, Pool, Workflow
from tenants.models import Membership, Tenant, Workspace
from tests.scheduling.cockpit.conftest import People
from tests.scheduling.cockpit.pages import DESK, NEEDS_CHROMIUM, Server, Visitor
from tests.scheduling.cockpit.test_levers import asked
from tests.scheduling.cockpit.test_pages import PLAIN_STATIC, signed_in
from tests.scheduling.factories import make_policy, make_price, make_reviewers, place

LONG = "\n".join(f"Line {n} of an answer that takes some reading." for n in range(60))


class Desk:
    """Jobs in review, made as their work leaves them."""

    def __init__(self, people: People) -> None:
        make_policy()
        make_price(output="1")
        self.pool = Pool.objects.create(slug="0-cockpit", name="Pool", budget=8, reserve=1)
        self.people = people
        self.reviewers = make_reviewers(self.pool)

    def job(self, tenant: str = "acme", *, placed: bool = True, **more: Any) -> Job:
        owner: Tenant = self.people.tenants[tenant]
        flow, _ = Workflow.objects.get_or_create(
            tenant=owner, slug=f"{tenant}-letters", defaults={"pool": self.pool, "name": "L"}
        )
        fields: dict[str, Any] = {
            "kind": "simulated", "job_class": "normal", "state": "queued", "phase": "review",
            "reason": "review", "max_attempts": 1, "input_tokens": 0, "output_tokens": 0,
            "payload": {"text": "Write to them."}, "result": {"text": "Dear all."}, "fence": 1,
            "submitted_by": "key:abc", "needs_review": True,
        }  # fmt: skip
        row = Job.objects.create(
            tenant=owner, workspace=Workspace.objects.get(tenant=owner), workflow=flow,
            pool=self.pool, **(fields | more),
        )  # fmt: skip
        if placed:
            self.lay(row)
        return row

    def lay(self, job: Job, fence: int = 2) -> Attempt:
        more = {"cost": 0, "job_class": "review", "sent_at": None}
        return place(job, fence=fence, executor=self.reviewers, **more)


@pytest.fixture
def desk(people: People) -> Desk:
    seat = {"user": people.vera, "tenant": people.tenants["acme"]}
    Membership.objects.filter(**seat).delete()
    Membership.objects.create(**seat, role="reviewer")
    return Desk(people)


@pytest.fixture
def plain() -> Iterator[None]:
    with override_settings(STORAGES=PLAIN_STATIC):
        yield


@pytest.fixture
def vera(desk: Desk, plain: None) -> Client:
    return signed_in(desk.people.vera)


def test_a_text_is_cut_where_a_line_ends_and_all_of_it_is_there() -> None:
    assert passage("short").rest == ""
    long = passage(LONG)
    assert long.begins.endswith("\n")
    assert len(long.begins) <= SHORT
    assert (long.begins + long.rest, long.is_cut) == (LONG, False)
    flat = passage("x" * (LONGEST + 1))
    assert (len(flat.begins), len(flat.begins + flat.rest), flat.is_cut) == (SHORT, LONGEST, True)


def test_a_text_is_shown_as_such_and_what_stands_beside_it_is_not_hidden() -> None:
    assert in_words({"text": "Olá"}) == "Olá"
    assert in_words({"text": "Olá", "model": "m"}) == 'Olá\n\n{\n  "model": "m"\n}'
    assert in_words({"text": None}) == '{\n  "text": null\n}'
    assert in_words(None) == "null"


def test_a_reviewer_sees_the_reviews_of_his_tenant_the_oldest_first(
    desk: Desk, vera: Client
) -> None:
    old, new = desk.job(), desk.job(placed=False)
    foreign = desk.job("beta")
    text = vera.get("/reviews/").text
    assert text.index(str(old.id)) < text.index(str(new.id))
    assert "Dear all." in text
    assert "Write to them." in text
    assert "Waits for a reviewer" in text
    assert "beta" not in text
    assert str(foreign.id) not in text
    assert "2 wait" in text


def test_what_a_model_wrote_cannot_become_markup(desk: Desk, vera: Client) -> None:
    bad = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    desk.job(result={"text": bad}, payload={"text": bad}, submitted_by="<b>me</b>")
    text = vera.get("/reviews/").text
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "<b>me" not in text
    assert text.count("&lt;script&gt;alert(1)") == 2


def test_his_own_work_and_what_another_has_offer_nothing_to_press(desk: Desk, vera: Client) -> None:
    desk.job(submitted_by="vera")
    taken = desk.job()
    later = timezone.now() + timedelta(minutes=9)
    Attempt.objects.filter(job=taken).update(
        state="running", reviewer="karl", started_at=timezone.now(), lease_until=later
    )
    text = vera.get("/reviews/").text
    assert "You submitted this job; somebody else has to judge it." in text
    assert "karl has it" in text
    assert '<form class="verdict" hidden>' in text


def test_a_list_that_is_as_it_was_is_not_sent_again(desk: Desk, vera: Client) -> None:
    job = desk.job()
    stamp = vera.get("/reviews/").context["stamp"]
    assert vera.get("/reviews/", {"known": stamp}).status_code == 204
    Job.objects.filter(id=job.id).update(state="done", finished_at=timezone.now())
    assert vera.get("/reviews/", {"known": stamp}).status_code == 200


def test_the_menu_leads_there_who_may_review_and_nobody_else(desk: Desk, plain: None) -> None:
    desk.job()
    olga = signed_in(desk.people.olga).get("/costs/").text
    assert 'href="/reviews/"' in olga
    assert '<span class="count" data-reviews>1</span>' in olga
    assert 'href="/reviews/"' in signed_in(desk.people.vera).get("/").text
    Membership.objects.filter(user=desk.people.vera).delete()
    seat = {"user": desk.people.vera, "tenant": desk.people.tenants["acme"]}
    Membership.objects.create(**seat, role="viewer")
    vera = signed_in(desk.people.vera)
    assert 'href="/reviews/"' not in vera.get("/").text
    assert vera.get("/reviews/").status_code == 403
    assert Client().get("/reviews/").status_code == 302


def test_the_page_takes_few_queries_however_many_wait(
    desk: Desk, vera: Client, django_assert_max_num_queries: Any
) -> None:
    for _ in range(12):
        desk.job()
    with django_assert_max_num_queries(8):
        vera.get("/reviews/")


@pytest.fixture
def visitor(desk: Desk, server: Server, chromium: Browser) -> Visitor:
    return Visitor(chromium, server, "vera", viewport=DESK)


def browser_test(test: Any) -> Any:
    for mark in NEEDS_CHROMIUM:
        test = mark(test)
    return test


@browser_test
def test_a_reviewer_accepts_rejects_and_gives_back_by_keyboard_and_mouse(
    desk: Desk, server: Server, visitor: Visitor
) -> None:
    first, second, third = (asked(desk.job) for _ in range(3))
    page = visitor.page
    page.goto(f"{server.url}/reviews/")
    item = {job.id: page.locator(f"[data-job='{job.id}']") for job in (first, second, third)}
    expect(page.locator("#reviews > li")).to_have_count(3)
    item[first.id].get_by_role("button", name="Reject").click()
    expect(page.locator("#reviews-fault")).to_have_text("Say in the note why it is rejected.")
    page.keyboard.type("It is not polite.")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(item[first.id]).to_have_count(0)
    expect(page.locator("#reviews-done")).to_contain_text("Rejected.")
    expect(item[second.id].locator("summary").first).to_be_focused()
    rejected = asked(lambda: Job.objects.get(id=first.id))
    assert (rejected.state, rejected.outcome) == ("done", "rejected")
    item[third.id].get_by_role("button", name="Take it").click()
    expect(item[third.id]).to_contain_text("You have it until")
    item[third.id].get_by_role("button", name="Give back").click()
    expect(item[third.id]).to_contain_text("Waits for a reviewer's slot")
    item[second.id].get_by_role("button", name="Accept").click()
    expect(page.locator("#reviews-done")).to_contain_text("Accepted.")
    assert asked(lambda: Job.objects.get(id=second.id)).outcome == "accepted"
    expect(page.locator("#reviews-count")).to_have_text("1 waits")
    expect(page.locator("nav.nav [data-reviews]")).to_have_text("1")
    assert visitor.faults == []


@browser_test
def test_what_comes_and_goes_elsewhere_shows_but_not_under_the_writers_hands(
    desk: Desk, server: Server, visitor: Visitor
) -> None:
    first = asked(desk.job)
    page = visitor.page
    page.goto(f"{server.url}/reviews/")
    note = page.locator(f"[data-job='{first.id}'] textarea")
    note.fill("half a thought")
    second = asked(desk.job)
    expect(page.locator(f"[data-job='{second.id}']")).to_be_visible()
    expect(note).to_have_value("half a thought")
    asked(lambda: Job.objects.filter(id=second.id).update(
        state="done", finished_at=timezone.now()
    ))  # fmt: skip
    expect(page.locator(f"[data-job='{second.id}']")).to_have_count(0)
    later = timezone.now() + timedelta(minutes=9)
    asked(lambda: Attempt.objects.update(
        state="running", reviewer="karl", started_at=timezone.now(), lease_until=later
    ))  # fmt: skip
    page.locator(f"[data-job='{first.id}']").get_by_role("button", name="Accept").click()
    expect(page.locator("#reviews-fault")).to_have_text("karl has taken this review.")
    expect(note).to_have_value("half a thought")


@browser_test
@pytest.mark.parametrize(
    ("theme", "width", "height"),
    [("dark", 1440, 900), ("light", 390, 844)],
)
def test_the_page_breaks_no_accessibility_rule_and_fits_the_screen(
    theme: str,
    width: int,
    height: int,
    desk: Desk,
    server: Server,
    chromium: Browser,
) -> None:
    def make() -> None:
        now = timezone.now()
        desk.job(result={"text": LONG}, deadline=now - timedelta(hours=1))
        desk.job(submitted_by="vera", deadline=now + timedelta(days=2))
        taken = desk.job(result={"text": "x" * 900, "model": "m"}, payload={"a": ["b"] * 30})
        Attempt.objects.filter(job=taken).update(
            state="running", reviewer="vera", started_at=now, lease_until=now + timedelta(hours=1)
        )
        desk.job(placed=False)

    asked(make)
    size = {"width": width, "height": height}
    visitor = Visitor(chromium, server, "vera", color_scheme=theme, viewport=size)
    page = visitor.page
    page.goto(f"{server.url}/reviews/")
    assert visitor.axe() == []
    for fold in page.locator("summary").all():
        fold.click()
    assert visitor.axe() == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    asked(lambda: Job.objects.update(state="done", finished_at=timezone.now()))
    expect(page.locator("#no-reviews")).to_be_visible()
    assert visitor.axe() == []
    assert visitor.faults == []

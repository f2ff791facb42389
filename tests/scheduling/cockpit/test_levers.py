"""Levers pulled on the board in a real browser, by mouse and by keyboard."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from billing.core.terms import DIMENSIONS, SCOPES, WINDOWS
from scheduling.cockpit.levers import levers_of
from scheduling.cockpit.viewers import with_connections_closed
from scheduling.models import Job, Pool, Workflow
from tenants.controls import control_number
from tenants.models import AuditEntry, Membership, Tenant, Workspace
from tests.scheduling.cockpit.boards import Story, job_id, mixed
from tests.scheduling.cockpit.conftest import People, Publish
from tests.scheduling.cockpit.pages import DESK, NEEDS_CHROMIUM, Server, Visitor
from tests.scheduling.factories import make_policy

CLASSES = ["incident", "expedite", "critical", "normal", "batch"]


def asked(query: Callable[[], Any]) -> Any:
    """Return what a query says; Playwright's loop keeps Django's queries out of its thread."""
    found: list[Any] = []
    thread = threading.Thread(target=with_connections_closed, args=[lambda: found.append(query())])
    thread.start()
    thread.join()
    return found[0]


def control_number_asked() -> int:
    return int(asked(control_number))


@pytest.fixture
def story(people: People) -> Story:
    """Twelve rows of a snapshot; the first is a job that exists, as its pool and workflow do."""
    make_policy()
    pool = Pool.objects.create(slug="0-cockpit", name="Pool", budget=8, reserve=1)
    acme = people.tenants["acme"]
    flow = Workflow.objects.create(tenant=acme, pool=pool, slug="triage", name="Triage")
    Job.objects.create(
        id=job_id(0), tenant=acme, workspace=Workspace.objects.get(tenant=acme), workflow=flow,
        pool=pool, kind="simulated", job_class="normal", state="queued", reason="in_order",
        max_attempts=1, payload={}, input_tokens=0, output_tokens=0, submitted_by="vera",
    )  # fmt: skip
    return mixed(12, ids=people.ids)


class Levers:
    """The board of an operator, with its levers."""

    def __init__(self, visitor: Visitor) -> None:
        self.page = visitor.page

    def menu(self, subject: str, words: str) -> None:
        """Open the first menu of that kind and choose what has these words."""
        self.page.locator(f"[data-lever={subject}]").first.click()
        self.page.get_by_role("menuitem", name=words).click()

    def go(self, reason: str = "too loud") -> None:
        self.page.fill("#lever-reason", reason)
        self.page.click("#lever-go")

    def done(self, words: str) -> None:
        expect(self.page.locator("#lever-done")).to_contain_text(words)
        expect(self.page.locator("#lever")).to_be_hidden()


@pytest.fixture
def board(story: Story, publish: Publish, server: Server, chromium: Browser) -> Visitor:
    publish(story, 1)
    visitor = Visitor(chromium, server, "olga", viewport=DESK)
    visitor.first_row(0)
    return visitor


class TestInTheBrowser:
    """An operator at work."""

    pytestmark = NEEDS_CHROMIUM

    def test_a_job_is_paused_and_a_tenant_held_with_a_reason(self, board: Visitor) -> None:
        levers = Levers(board)
        levers.menu("job", "Pause")
        levers.go()
        levers.done("paused. Change ")
        assert asked(lambda: Job.objects.get().paused)
        levers.menu("tenant", "Hold")
        expect(board.page.locator("#lever-says")).to_contain_text("6 jobs wait now")
        levers.go("does not pay")
        levers.done("Acme Works is held. Change ")
        assert asked(lambda: Tenant.objects.get(slug="acme").held)
        audit = asked(lambda: list(AuditEntry.objects.order_by("-number")[:2].values_list(
            "action", "actor", "reason", "before", "after")))  # fmt: skip
        assert audit == [
            ("tenant_weight", "olga", "does not pay",
             {"weight": 1, "held": False}, {"weight": 1, "held": True}),
            ("job_pause", "olga", "too loud", {"paused": False}, {"paused": True}),
        ]  # fmt: skip
        assert board.faults == []

    def test_the_keyboard_alone_moves_a_job_to_another_class(self, board: Visitor) -> None:
        press = board.page.keyboard.press
        board.page.locator("[data-lever=job]").first.focus()
        press("Enter")
        expect(board.page.get_by_role("menuitem", name="Prioritise")).to_be_focused()
        press("ArrowDown")
        press("ArrowUp")
        press("Enter")
        board.page.locator("#lever-class").select_option("expedite")
        board.page.locator("#lever-reason").focus()
        board.page.keyboard.type("customer waits")
        press("Tab")
        press("Tab")
        press("Enter")
        Levers(board).done("moved. Change ")
        assert asked(lambda: Job.objects.get().job_class) == "expedite"
        press("Escape")
        assert board.faults == []

    def test_escape_leaves_a_menu_and_a_dialog_and_gives_the_focus_back(
        self, board: Visitor
    ) -> None:
        dots = board.page.locator("[data-lever=job]").first
        dots.click()
        board.page.keyboard.press("Escape")
        expect(board.page.locator("#lever-menu")).to_be_hidden()
        expect(dots).to_be_focused()
        Levers(board).menu("job", "Cancel")
        board.page.keyboard.press("Escape")
        expect(board.page.locator("#lever")).to_be_hidden()
        expect(dots).to_be_focused()
        assert asked(lambda: Job.objects.get().state) == "queued"

    def test_a_refusal_is_told_in_the_dialog_and_can_be_mended(self, board: Visitor) -> None:
        levers = Levers(board)
        board.page.locator("[data-lever=pool]").click()
        board.page.fill("#lever-budget", "4")
        board.page.fill("#lever-reserve", "5")
        levers.go()
        fault = board.page.locator("#lever-fault")
        expect(fault).to_contain_text("reserve: A reserve is 0 to the budget (4), not 5.")
        board.page.fill("#lever-reserve", "2")
        levers.go()
        levers.done("The dial is set. Change ")
        assert asked(lambda: Pool.objects.values_list("budget", "reserve").get()) == (4, 2)
        assert [one for one in board.faults if "400" not in one] == []

    def test_a_row_of_a_paused_board_keeps_its_levers_when_its_job_has_gone(
        self, board: Visitor, story: Story, publish: Publish
    ) -> None:
        board.page.click("#pause")
        gone = story.waiting.pop(0)
        publish(story, 2)
        expect(board.page.locator("#pause")).to_contain_text("Resume (1")
        levers = Levers(board)
        dots = board.page.locator(f"[data-of='{job_id(gone.number)}']")
        dots.click()
        board.page.get_by_role("menuitem", name="Pause").click()
        levers.go()
        levers.done("paused. Change ")
        expect(dots).to_be_focused()
        assert board.faults == []

    @pytest.mark.parametrize(
        ("subject", "words", "rows", "cap"),
        [
            ("tenant", "Cap…", Tenant, 5),
            ("job", "Cap of triage", Workflow, 6),
            ("job", "Cap of main", Workspace, None),
        ],
    )
    def test_a_cap_opens_with_what_is_set_and_stays_as_it_is(
        self, board: Visitor, subject: str, words: str, rows: Any, cap: int | None
    ) -> None:
        asked(lambda: rows.objects.update(max_running=cap))
        levers = Levers(board)
        levers.menu(subject, words)
        expect(board.page.locator("#lever-max_running")).to_have_value(str(cap or ""))
        expect(board.page.locator("#lever-max_running")).to_be_focused()
        levers.go()
        levers.done("set. Change ")
        assert set(asked(lambda: list(rows.objects.values_list("max_running", flat=True)))) == {cap}
        assert board.faults == []

    def test_a_cap_that_cannot_be_read_is_not_lifted_unseen(self, board: Visitor) -> None:
        asked(lambda: Tenant.objects.update(max_running=5))
        page, before = board.page, control_number_asked()
        page.route("**/api/v1/tenants/acme/limits", lambda route: route.abort())
        Levers(board).menu("tenant", "Cap…")
        expect(page.locator("#lever-fault")).to_have_text(
            "The server did not answer. Close this and open it again."
        )
        expect(page.locator("#lever-fields *")).to_have_count(0)
        page.fill("#lever-reason", "in haste")
        expect(page.locator("#lever-go")).to_be_disabled()
        page.evaluate("document.querySelector('#lever-form').requestSubmit()")
        page.unroute("**/api/v1/tenants/acme/limits")
        page.keyboard.press("Escape")
        Levers(board).menu("tenant", "Cap…")
        expect(page.locator("#lever-max_running")).to_have_value("5")
        expect(page.locator("#lever-go")).to_be_enabled()
        expect(page.locator("#lever-fault")).to_be_empty()
        assert control_number_asked() == before
        assert asked(lambda: Tenant.objects.get(slug="acme").max_running) == 5

    @pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
    def test_menu_and_dialog_break_no_accessibility_rule(
        self, board: Visitor, theme: Any, width: int
    ) -> None:
        board.page.emulate_media(color_scheme=theme)
        board.page.set_viewport_size({"width": width, "height": 844})
        board.page.locator("[data-lever=job]").first.click()
        expect(board.page.locator("#lever-menu")).to_be_visible()
        assert board.axe() == []
        board.page.get_by_role("menuitem", name="Prioritise").click()
        expect(board.page.locator("#lever")).to_be_visible()
        assert board.axe() == []
        assert board.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def test_who_may_only_look_is_offered_no_lever(
        self,
        story: Story,
        publish: Publish,
        server: Server,
        chromium: Browser,
    ) -> None:
        publish(story, 1)
        visitor = Visitor(chromium, server, "vera", viewport=DESK)
        visitor.first_row(0)
        expect(visitor.page.locator("[data-lever]")).to_have_count(0)
        expect(visitor.page.locator("#lever")).to_have_count(0)
        assert visitor.faults == []


def test_what_is_offered_follows_the_roles(people: People) -> None:
    make_policy()
    budgets = {"scopes": SCOPES, "dimensions": DIMENSIONS, "windows": WINDOWS}
    assert levers_of(people.vera) is None
    assert levers_of(people.olga) == {
        "operator": True, "work": [], "manage": [], "classes": CLASSES,
        "budgets": budgets,
    }  # fmt: skip
    main = Workspace.objects.get(tenant=people.tenants["beta"])
    Membership.objects.create(
        user=people.vera, tenant=main.tenant, workspace=main, role="submitter"
    )
    assert levers_of(people.vera) == {
        "operator": False, "work": ["beta/main"], "manage": [],
        "classes": ["expedite", "normal", "batch"], "budgets": budgets,
    }  # fmt: skip
    Membership.objects.create(user=people.vera, tenant=people.tenants["acme"], role="tenant_admin")
    assert levers_of(people.vera) == {
        "operator": False, "work": ["acme", "beta/main"], "manage": ["acme"],
        "classes": CLASSES[1:], "budgets": budgets,
    }  # fmt: skip


def test_without_a_policy_there_are_no_classes_to_offer(people: People) -> None:
    assert (levers_of(people.olga) or {})["classes"] == []

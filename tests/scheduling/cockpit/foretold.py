"""A pool with a past, and the figures of the forecast page as it was sent."""

from collections import defaultdict
from html.parser import HTMLParser
from typing import Any

from billing.models import Budget
from scheduling.models import Pool
from tenants.models import Tenant, Workspace
from tests.scheduling.api.test_forecast import came, ran
from tests.scheduling.api.test_forecast_cuts import used_up
from tests.scheduling.cockpit.conftest import People
from tests.scheduling.factories import (
    make_budget,
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_workflow,
)


class Past:
    """Both tenants' jobs of the last two days in one pool; acme's have run, with ETAs."""

    def __init__(self, people: People) -> None:
        make_policy()
        make_price(output="1")
        self.people = people
        self.pool: Pool = make_pool("main", budget=8, reserve=1)
        make_executor(self.pool, labels=["gpu"])
        for tenant in people.tenants.values():
            make_workflow(tenant, self.pool)
        for job in came(self.space("acme"), 6, 30, labels=("gpu",)):
            eta = (45, 30, 70)
            ran(job, hours_ago=4, waited_s=20, took_s=30, eta=eta)
        came(self.space("acme"), 3, 20)
        came(self.space("beta"), 2, 5)
        used_up(Budget.objects.get(id=make_budget(self.space("acme"), "60", dimension="attempts")))
        make_budget(self.space("beta"), "77", dimension="attempts")

    def space(self, tenant: str) -> Workspace:
        return Workspace.objects.get(tenant=Tenant.objects.get(slug=tenant))


class Sent(HTMLParser):
    """The figures of a page, by the id of the part in which they stand; the words of its rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.figures: dict[str, list[str]] = defaultdict(list)
        self.words: dict[str, list[str]] = defaultdict(list)
        self.ids: list[str] = []
        self._part = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told: dict[str, Any] = dict(attrs)
        self._part = told.get("id", self._part)
        if tag == "data":
            self.figures[self._part].append(told["value"])
        if tag == "time":
            self.figures[self._part].append(told["datetime"])

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.words[self._part].append(data.strip())

    def numbers(self, part: str) -> list[float]:
        return [float(one) for one in self.figures[part]]

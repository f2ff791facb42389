"""The report in a real browser: both themes, phone to desk, no violation, nothing asked outside."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from scheduling.core.types import Executor, Pool
from scheduling.simulator.report import Report
from scheduling.simulator.scenario import Scenario, SimJob, Station, Tenant
from tests.scheduling.cockpit.pages import AXE, CHROMIUM, FLAGS, NEEDS_CHROMIUM
from tests.scheduling.simulator.logs import Written, summary

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tenants = tuple(Tenant(name=f"tenant-with-a-long-name-{number}") for number in range(9))
    jobs = [SimJob(id=f"J{n}", tenant=tenants[n % 9].name) for n in range(90)]
    scenario = Scenario(
        name="a run of many tenants",
        pools=(Pool(id="default", budget=3),),
        stations=(
            Station(executor=Executor(id="gpu-a", kinds=frozenset(), slots=3), pool="default"),
        ),
        tenants=tenants,
        arrivals=lambda: iter(jobs),
        compare="naive",
    )
    log = Written(Report(scenario))
    for number, job in enumerate(jobs):
        log.queue(number, job.id, job.tenant, place=1, eta_s=60.0, facts={"need": 1, "free": 0})
        log.place(number, job.id, job.tenant)
        end = number + 1 + number % 5
        if number % 7:
            log.finish(end, job.id, job.tenant, waited_s=float(number))
        else:
            log.tell(end, "preempted", job=job.id, tenant=job.tenant, reason="preempted")
            log.tell(end, "failed", job=job.id, tenant=job.tenant, reason="execution_error")
    row = {"jobs": 10, "done": 9, "mean_wait_s": 4.0, "p95_wait_s": 9.0, "served": 10.0}
    told = {tenant.name: row | {"share": 0.1, "share_per_weight": 0.1} for tenant in tenants}
    eta = {"count": 9, "mean_error_s": 1.0, "naive_mean_error_s": 3.0, "hit_rate": 0.8}
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(log.report.html(summary(tenants=told, makespan_s=95.0, eta=eta)))
    return file


@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1440), ("light", 2560)])
def test_the_report_is_clean_at_every_width_in_both_themes(
    chromium: Browser, page_file: Path, theme, width: int
) -> None:
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=True
    )
    page, faults = context.new_page(), []
    page.on("console", lambda line: faults.append(line.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda asked: faults.append(asked.url))
    page.goto(page_file.as_uri())
    for summary_line in page.locator("details > summary").all():
        summary_line.click()
    page.evaluate(AXE.read_text() + "; undefined")
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    assert [(rule["id"], node["target"]) for rule in found for node in rule["nodes"]] == []
    assert faults == [page_file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(14, 19, 24)") is (theme == "dark")
    context.close()

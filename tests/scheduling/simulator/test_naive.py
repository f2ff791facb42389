"""The naive rules starve the small tenant in just the way that they are known for."""

from collections.abc import Iterator

import pytest

from scheduling.core.types import Pool
from scheduling.simulator.naive import first_in_line, placements, proportional, stateless
from scheduling.simulator.scenario import Scenario, SimJob, Tenant, WorkflowRule


def backlog(budget: int, *, firsts: tuple[float, ...] = ()) -> Scenario:
    """1,000 older jobs of A, of which the first take so long; 100 newer of B."""

    def arrivals() -> Iterator[SimJob]:
        for number in range(1000):
            took = firsts[number] if number < len(firsts) else 60.0
            yield SimJob(id=f"A{number}", tenant="A", duration=took)
        for number in range(100):
            yield SimJob(id=f"B{number}", tenant="B", at=10.0, duration=60.0)

    return Scenario(
        pools=(Pool(id="default", budget=budget),),
        tenants=(Tenant(name="A"), Tenant(name="B")),
        arrivals=arrivals,
        job_count=1100,
    )


@pytest.mark.parametrize("rule", [first_in_line, proportional, stateless])
def test_with_slots_that_free_one_at_a_time_every_naive_rule_starves_the_small_tenant(rule) -> None:
    run = placements(backlog(3, firsts=(20, 40)), rule, most=200)
    assert run == ["A"] * 200


def test_proportional_rounding_gives_the_small_tenant_nothing_for_167_rounds_of_three() -> None:
    run = placements(backlog(3), proportional, most=1100)
    first = run.index("B")
    assert (len(run), first % 3) == (1100, 2)
    assert first // 3 == pytest.approx(167, abs=1)  # the source's own sum


def test_a_stateless_interleave_of_three_slots_serves_two_to_one() -> None:
    run = placements(backlog(3), stateless, most=150)
    assert run[3:9] == ["A", "B", "A", "A", "B", "A"]


def test_a_job_that_does_not_fit_stops_the_line() -> None:
    jobs = [
        SimJob(id="small", tenant="A", duration=10),
        SimJob(id="large", tenant="A", duration=10, cost=2),
        SimJob(id="late", tenant="B", at=1.0, duration=10),
    ]
    scenario = Scenario(
        pools=(Pool(id="p", budget=2),), tenants=(Tenant(name="A"),), arrivals=lambda: iter(jobs)
    )
    assert placements(scenario, first_in_line, most=9) == ["A", "A", "B"]


def test_a_job_costs_what_its_workflow_does_where_it_names_no_cost() -> None:
    jobs = [SimJob(id=f"{n}", tenant="A", workflow="big", duration=10) for n in range(2)]
    scenario = Scenario(
        pools=(Pool(id="p", budget=4),),
        tenants=(Tenant(name="A"), Tenant(name="B")),
        workflows=(WorkflowRule(tenant="A", name="big", cost=4),),
        arrivals=lambda: iter([*jobs, SimJob(id="b", tenant="B", duration=10)]),
    )
    assert placements(scenario, stateless, most=9) == ["A", "A", "B"]


def test_weights_count_in_the_rounds_of_the_stateless_interleave() -> None:
    jobs = [SimJob(id=f"{name}{n}", tenant=name) for name in "AB" for n in range(4)]
    scenario = Scenario(
        pools=(Pool(id="p", budget=8),),
        tenants=(Tenant(name="A", weight=2), Tenant(name="B")),
        arrivals=lambda: iter(jobs),
    )
    assert "".join(placements(scenario, stateless, most=9)) == "AABAABBB"

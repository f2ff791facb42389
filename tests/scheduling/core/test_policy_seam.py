"""The seam: what a custom queue policy may change, and what it may not."""

import pytest
from msgspec.structs import replace

from scheduling.core.admission import Answer, Facts, admit
from scheduling.core.policy.cycle import cycle
from scheduling.core.policy.seam import (
    BUILT_IN,
    BrokenQueuePolicy,
    QueuePolicy,
    Standing,
    admitted,
    chosen,
    standing,
)
from scheduling.core.policy.settings import Policy
from scheduling.core.types import Reason, Verdict
from tests.scheduling.core.pools import make_executor, make_job, make_state


class NightShift(QueuePolicy):
    """An example: refuses dear work, puts short work first in its line, fills one executor up."""

    def admit(self, facts):
        if facts.cost > 5:
            sentence = "At night a job costs 5 units at most; submit it in the morning."
            return Answer(verdict=Verdict.DENIED, reason=Reason.NEVER_FITS, sentence=sentence)
        return super().admit(facts)

    def order(self, job):
        return replace(super().order(job), deadline=job.expected_s, charge=2 * job.charge)

    def place(self, job, free, in_use):
        return max(free, key=lambda one: (in_use.get(one.id, 0), one.id))


class Lenient(QueuePolicy):
    """Breaks what can be broken."""

    def __init__(self, **says):
        self.says = says

    def admit(self, facts):
        return Answer(verdict=Verdict.ADMITTED, reason=Reason.STARTS_NOW, sentence="Come in.")

    def order(self, job):
        return Standing(**{"class_name": "normal", "charge": 1, "deadline": None, **self.says})

    def place(self, job, free, in_use):
        return make_executor("elsewhere")


NIGHT = NightShift()


def test_a_custom_admission_refuses_what_the_house_would_take():
    dear, cheap = Facts(now=0, cost=6, most=9), Facts(now=0, cost=5, most=9)
    assert admitted(NIGHT, dear).verdict is Verdict.DENIED
    assert "in the morning" in admitted(NIGHT, dear).sentence
    assert admitted(NIGHT, cheap) == admitted(BUILT_IN, cheap) == admit(cheap)


@pytest.mark.parametrize("facts", [Facts(now=0, cost=9, most=1), Facts(now=0, not_before=9.0)])
def test_a_custom_admission_takes_nothing_that_the_house_refuses(facts):
    assert admit(facts).verdict in (Verdict.DENIED, Verdict.DEFERRED)
    assert admitted(Lenient(), facts) == admit(facts)


def test_a_custom_order_puts_short_work_first_in_its_own_line_alone():
    policy = Policy(deadlines=True)
    jobs = [
        make_job("slow", expected_s=60),
        make_job("quick", expected_s=1),
        make_job("other", tenant="b", expected_s=99),
    ]
    state = make_state(1, policy=policy, jobs=[standing(NIGHT, policy, job) for job in jobs])
    # The line of "a" is headed by "quick", submitted second; "other" has the same turn and is later.
    assert [spot.job.id for spot in state.order.walk_all()] == ["quick", "other", "slow"]


def test_a_custom_charge_is_kept_when_a_cost_changes():
    policy = Policy()
    state = make_state(9, policy=policy)
    state.queue = NIGHT
    state.wait(standing(NIGHT, policy, make_job("a", 1, workflow="w")))
    state.recost("a", "w", 3)
    assert (state.order.get("a").cost, state.order.get("a").charge) == (3, 6)


def test_a_custom_placement_picks_among_free_executors_also_in_a_copy():
    x, y = make_executor("x", 2), make_executor("y", 2)
    state = make_state(9, executors=[x, y], jobs=[make_job(f"j{n}") for n in range(3)])
    state.queue = NIGHT
    assert [one.executor for one in cycle(state.first(9), 0.0)] == ["y", "y", "x"]
    assert [one.executor for one in cycle(state, 0.0)] == ["y", "y", "x"]


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ({"class_name": "vip"}, "'vip', which is no class"),
        ({"charge": 0}, "charges 0"),
        ({"charge": 1.5}, "charges 1.5"),
    ],
)
def test_a_custom_order_out_of_bounds_names_its_class(says, told):
    with pytest.raises(BrokenQueuePolicy, match=f"Lenient.*{told}"):
        standing(Lenient(**says), Policy(), make_job("a"))


def test_a_custom_placement_where_the_job_may_not_run_names_its_class():
    with pytest.raises(BrokenQueuePolicy, match="Lenient places job a where it may not run"):
        chosen(Lenient(), make_job("a"), [make_executor("x")], {})


def test_the_built_in_policy_leaves_every_rule_as_it_is():
    job = make_job("a", deadline=5.0)
    assert standing(BUILT_IN, Policy(), job) is job
    assert standing(QueuePolicy(), Policy(), job) == job
    x, y = make_executor("x", 1), make_executor("y", 1)
    assert chosen(QueuePolicy(), job, [x, y], {"x": 1}) == chosen(BUILT_IN, job, [x, y], {"x": 1})

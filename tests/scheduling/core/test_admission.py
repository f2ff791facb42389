from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduling.core.admission import Backlog, BudgetRefusal, Ceiling, Facts, Quota, admit
from scheduling.core.types import Reason, Verdict

NOW = 1000.0


def refusal(**changes):
    amounts = {"limit": "10", "spent": "4", "held": "5", "estimate": "2"} | changes
    ends = amounts.pop("window_ends_at", None)
    return BudgetRefusal(
        scope="workspace red",
        dimension="spend",
        window_ends_at=ends,
        **{name: Decimal(amount) for name, amount in amounts.items()},
    )


def verdict(**facts):
    answer = admit(Facts(now=NOW, **facts))
    return answer.verdict, answer.reason


def said(answer):
    return [(one.action, one.sentence) for one in answer.alternatives]


def test_a_job_that_should_start_at_once_is_admitted():
    assert verdict(starts_now=True) == (Verdict.ADMITTED, Reason.STARTS_NOW)


def test_a_job_that_must_wait_is_queued_with_its_place_and_time():
    answer = admit(Facts(now=NOW, place=7, eta=NOW + 90))
    assert (answer.verdict, answer.reason) == (Verdict.QUEUED, Reason.IN_ORDER)
    expected = "The job is funded and stands in the order at place 7, done in about 90 s."
    assert answer.sentence == expected
    assert admit(Facts(now=NOW)).sentence == "The job is funded and stands in the order."


def test_a_submitter_without_permission_is_denied_and_told_what_is_missing():
    answer = admit(Facts(now=NOW, permitted=False, permission="chat:use"))
    assert (answer.verdict, answer.reason) == (Verdict.DENIED, Reason.NOT_PERMITTED)
    assert "chat:use" in answer.sentence
    assert "this kind of job" in admit(Facts(now=NOW, permitted=False)).sentence


@pytest.mark.parametrize(
    ("deadline", "not_before", "denied"),
    [
        (NOW, None, True),
        (NOW + 1, None, False),
        (NOW + 5, NOW + 5, True),
        (NOW + 6, NOW + 5, False),
        (NOW + 5, NOW - 5, False),
    ],
)
def test_a_deadline_that_cannot_be_met_is_denied(deadline, not_before, denied):
    answer = admit(Facts(now=NOW, deadline=deadline, not_before=not_before))
    assert (answer.reason is Reason.DEADLINE) is denied


@pytest.mark.parametrize(
    ("expires_at", "not_before", "words"),
    [
        (NOW, None, "is over already"),
        (NOW + 1, None, ""),
        (NOW + 5, NOW + 5, "expire before its not_before"),
        (NOW + 6, NOW + 5, ""),
        (NOW - 1, NOW + 5, "is over already"),
    ],
)
def test_a_job_that_expires_before_it_could_start_is_denied(expires_at, not_before, words):
    answer = admit(Facts(now=NOW, expires_at=expires_at, not_before=not_before))
    assert (answer.reason is Reason.EXPIRED) is bool(words)
    if words:
        assert answer.verdict is Verdict.DENIED
        assert words in answer.sentence
        assert said(answer) == [("change_expiry", "a longer time to live")]


def test_a_job_that_never_fits_is_denied_with_both_numbers():
    answer = admit(Facts(now=NOW, cost=9, most=6))
    assert (answer.verdict, answer.reason) == (Verdict.DENIED, Reason.NEVER_FITS)
    assert "9 units" in answer.sentence
    assert "at most 6" in answer.sentence
    assert said(answer) == [("lower_cost", "a cost of at most 6 units")]
    one = admit(Facts(now=NOW, cost=2, most=1))
    assert said(one) == [("lower_cost", "a cost of at most 1 unit")]
    assert verdict(cost=6, most=6)[0] is Verdict.QUEUED


def test_an_unknown_price_fails_closed():
    answer = admit(Facts(now=NOW, unpriced_model="m-1"))
    assert (answer.verdict, answer.reason) == (Verdict.DENIED, Reason.UNPRICED_MODEL)
    assert "m-1" in answer.sentence


@pytest.mark.parametrize(("scope", "where"), [("tenant", "in this tenant"), ("all", "in all")])
def test_a_full_backlog_asks_to_try_later(scope, where):
    backlogs = (
        Backlog(scope="workspace", waiting=1, cap=9),
        Backlog(scope=scope, waiting=9, cap=9),
    )
    answer = admit(Facts(now=NOW, backlogs=backlogs, retry_s=20))
    assert (answer.verdict, answer.reason) == (Verdict.DENIED, Reason.BACKLOG_FULL)
    assert answer.retry_at == NOW + 20
    assert f"9 jobs wait {where}" in answer.sentence


def test_sheddable_classes_are_refused_first():
    backlogs = (
        Backlog(scope="tenant", waiting=80, cap=100),
        Backlog(scope="all", waiting=80, cap=100),
    )
    plain = Facts(now=NOW, backlogs=backlogs, shed_share=0.8)
    assert admit(plain).verdict is Verdict.QUEUED
    shed = admit(replace(plain, sheddable=True, other_classes=("normal",)))
    assert (shed.verdict, shed.reason) == (Verdict.DENIED, Reason.SHED)
    assert said(shed) == [
        ("try_later", "the same job in 30 s"), ("change_class", "class normal now"),
    ]  # fmt: skip
    assert "80 jobs wait in all and no more jobs of a class that can wait" in shed.sentence
    assert "from 80 on" in shed.sentence


def test_a_backlog_that_is_full_for_all_names_its_whole_cap():
    full = Facts(
        now=NOW, backlogs=(Backlog(scope="all", waiting=100, cap=100),), sheddable=True,
        shed_share=0.8, other_classes=("normal",),
    )  # fmt: skip
    answer = admit(full)
    assert (answer.reason, said(answer)) == (
        Reason.BACKLOG_FULL, [("try_later", "the same job in 30 s")],
    )  # fmt: skip
    assert "no more jobs are taken from 100 on" in answer.sentence


@pytest.mark.parametrize(("most", "denied"), [("3", True), ("4", False)])
def test_an_estimate_above_a_ceiling_of_the_job_is_denied(most, denied):
    ceilings = (
        Ceiling(dimension="tokens", most=Decimal(9), estimate=Decimal(9)),
        Ceiling(dimension="spend", most=Decimal(most), estimate=Decimal(4)),
    )
    answer = admit(Facts(now=NOW, ceilings=ceilings))
    assert (answer.reason is Reason.HARD_CEILING) is denied
    if denied:
        assert "at most 3 spend and is expected to take 4" in answer.sentence
        assert said(answer) == [("raise_max_spend", "a max_spend of at least 4")]


@pytest.mark.parametrize(("used", "denied"), [(4, False), (5, True), (6, True)])
def test_a_class_takes_no_more_of_a_workspaces_jobs_than_its_quota(used, denied):
    quota = Quota(class_name="expedite", used=used, most=5)
    answer = admit(Facts(now=NOW, quota=quota, other_classes=("critical", "normal")))
    assert (answer.reason is Reason.CLASS_QUOTA) is denied
    if denied:
        assert f"has {used} jobs of class expedite" in answer.sentence
        assert [one[1] for one in said(answer)] == ["class critical now", "class normal now"]


def test_a_budget_that_only_waits_for_a_release_defers_without_a_time():
    answer = admit(Facts(now=NOW, refusals=(refusal(),)))
    assert (answer.verdict, answer.reason) == (Verdict.DEFERRED, Reason.BUDGET)
    assert answer.retry_at is None
    assert answer.sentence == (
        "The spend budget of workspace red has 1 left of 10 (4 spent, 5 held) and the job needs 2; "
        "the job is taken up when a reservation is released."
    )
    assert said(answer) == [
        ("lower_estimate", "an estimate of at most 1 spend (workspace red)"),
        ("raise_budget", "more of the spend budget of workspace red: ask a tenant admin"),
    ]


@pytest.mark.parametrize("scope", ["tenant", "tenant red"])
def test_a_tenants_own_budget_is_raised_by_an_operator(scope):
    answer = admit(Facts(now=NOW, refusals=(replace(refusal(), scope=scope),)))
    assert said(answer)[-1][1].endswith(f"budget of {scope}: ask an operator")


def test_a_budget_with_a_window_defers_to_the_end_of_the_latest_refusing_window():
    refusals = (
        refusal(spent="10", held="0", window_ends_at=NOW + 50),
        refusal(spent="9", held="0", window_ends_at=NOW + 90),
        refusal(),
    )
    answer = admit(Facts(now=NOW, refusals=refusals))
    assert (answer.verdict, answer.retry_at) == (Verdict.DEFERRED, NOW + 90)
    assert "at the latest in the next window" in answer.sentence
    ways = said(answer)
    assert [action for action, _ in ways] == [
        "wait_for_window", "raise_budget", "lower_estimate", "wait_for_window", "raise_budget",
        "lower_estimate", "raise_budget",
    ]  # fmt: skip
    assert ways[0][1] == "the next window of workspace red, from 1970-01-01 00:17 UTC on"


def test_a_budget_that_can_never_cover_the_estimate_denies():
    spent = refusal(spent="9", held="0")
    too_large = refusal(spent="0", held="0", estimate="11", window_ends_at=NOW + 50)
    for final in (spent, too_large):
        answer = admit(Facts(now=NOW, refusals=(refusal(), final)))
        assert (answer.verdict, answer.reason) == (Verdict.DENIED, Reason.BUDGET)
        assert "ask for an escalation" in answer.sentence
        assert "wait_for_window" not in {
            one.action for one in admit(Facts(now=NOW, refusals=(final,))).alternatives
        }


def test_an_estimate_that_just_fits_the_limit_is_worth_waiting_for():
    assert not refusal(spent="8", held="1", estimate="2").final
    assert not refusal(spent="10", held="0", estimate="10", window_ends_at=NOW + 50).final


def test_amounts_are_written_in_full():
    answer = admit(Facts(now=NOW, refusals=(refusal(limit="1E+3", spent="999.50", estimate="1"),)))
    assert "of 1000 (999.50 spent" in answer.sentence


def test_an_open_circuit_without_fallback_defers_until_it_is_tried_again():
    answer = admit(Facts(now=NOW, circuit_until=NOW + 30))
    assert (answer.verdict, answer.reason) == (Verdict.DEFERRED, Reason.CIRCUIT_OPEN)
    assert (answer.retry_at, said(answer)) == (NOW + 30, [("change_model", "another model")])
    assert verdict(circuit_until=NOW)[0] is Verdict.QUEUED


def test_a_job_that_may_not_start_yet_is_deferred_to_its_time():
    answer = admit(Facts(now=NOW, not_before=NOW + 5))
    assert (answer.verdict, answer.reason) == (Verdict.DEFERRED, Reason.NOT_BEFORE)
    assert answer.retry_at == NOW + 5
    assert verdict(not_before=NOW)[0] is Verdict.QUEUED


def test_a_held_tenants_job_and_one_with_open_dependencies_are_queued_with_a_mark():
    assert verdict(tenant_held=True, starts_now=True) == (Verdict.QUEUED, Reason.TENANT_HELD)
    assert verdict(open_dependencies=1, starts_now=True) == (Verdict.QUEUED, Reason.DEPENDENCY)
    assert "for 1 job " in admit(Facts(now=NOW, open_dependencies=1)).sentence
    assert "for 3 jobs " in admit(Facts(now=NOW, open_dependencies=3)).sentence


TESTS = [
    (Reason.NOT_PERMITTED, {"permitted": False}),
    (Reason.DEADLINE, {"deadline": NOW - 1}),
    (Reason.EXPIRED, {"expires_at": NOW - 1}),
    (Reason.NEVER_FITS, {"cost": 2, "most": 1}),
    (Reason.UNPRICED_MODEL, {"unpriced_model": "m"}),
    (Reason.BACKLOG_FULL, {"backlogs": (Backlog(scope="all", waiting=1, cap=1),)}),
    (Reason.BUDGET, {"refusals": (refusal(),)}),
    (Reason.CIRCUIT_OPEN, {"circuit_until": NOW + 1}),
    (Reason.NOT_BEFORE, {"not_before": NOW + 1}),
    (Reason.TENANT_HELD, {"tenant_held": True}),
    (Reason.DEPENDENCY, {"open_dependencies": 1}),
    (Reason.STARTS_NOW, {"starts_now": True}),
]


@given(st.sets(st.sampled_from(range(len(TESTS))), min_size=1))
def test_of_several_obstacles_the_first_in_the_published_order_is_named(chosen):
    facts = {}
    for index in chosen:
        facts |= TESTS[index][1]
    answer = admit(Facts(now=NOW, **facts))
    assert answer.reason is TESTS[min(chosen)][0]
    assert answer.sentence.endswith(".")

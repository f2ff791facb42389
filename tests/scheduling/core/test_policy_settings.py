import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.policy.document import POLICY, InvalidPolicy, policy_from_dict, to_dict
from scheduling.core.policy.settings import (
    Backfill,
    BacklogCaps,
    Candidate,
    DefaultCaps,
    Fallback,
    OnLost,
    Policy,
    Preemption,
    RiskRule,
    RiskRules,
    ShareBy,
    charge_of,
    recharged,
)
from scheduling.core.retry import RetrySettings
from scheduling.core.types import ClassRule
from tests.scheduling.core.pools import make_job


def errors_of(data):
    with pytest.raises(InvalidPolicy) as caught:
        policy_from_dict(data)
    return {error.field: error.sentence for error in caught.value.errors}


def test_the_default_policy_has_the_published_classes_in_strict_order():
    policy = policy_from_dict({})
    assert policy == Policy()
    assert [rule.name for rule in policy.classes] == [
        "incident",
        "expedite",
        "critical",
        "normal",
        "batch",
    ]
    assert policy.class_named("batch").sheddable
    assert policy.class_named("expedite").fifo
    assert policy.class_named("nothing") is None


def test_only_an_incident_may_use_the_reserve_by_default():
    policy = Policy()
    users = [rule.name for rule in policy.classes if policy.uses_reserve(rule.name)]
    assert users == ["incident"]
    assert not policy.uses_reserve("nothing")


def test_a_policy_reads_back_from_its_own_json():
    policy = Policy(
        number=7,
        classes=(ClassRule(name="fast", fifo=True, quota=3), ClassRule(name="slow")),
        default_class="slow",
        share_by=ShareBy.TOKENS,
        backfill=Backfill.EASY,
        deadlines=True,
        retry=RetrySettings(max_attempts=9),
        backlog=BacklogCaps(tenant=5),
        on_lost_other=OnLost.REQUEUE,
        default_caps=DefaultCaps(user=3),
        preemption=Preemption(enabled=True, min_run_s=5.0),
        risk=RiskRules(high=RiskRule(labels=("eu", "gpu"), needs_review=True)),
        fallback=(Fallback(model="m", candidates=(Candidate(model="n", price_ratio=1.5),)),),
    )
    assert policy_from_dict(json.loads(json.dumps(to_dict(policy)))) == policy


def test_a_key_that_is_left_out_takes_its_default():
    policy = policy_from_dict({"retry": {"max_attempts": 5}, "age_after": 60})
    assert policy.retry == RetrySettings(max_attempts=5)
    assert (policy.age_after, policy.age_limit) == (60.0, 10)


def test_all_wrong_fields_are_named_at_once_by_their_path():
    wrong = errors_of(
        {
            "speed": 3,
            "age_limit": True,
            "deadlines": 1,
            "share_by": "luck",
            "retry": {"max_attempts": 0, "tries": 1},
            "breaker": "none",
            "classes": [{"name": "a", "asked_by": "nobody", "quota": -1}, {"fifo": True}, 5],
        }
    )
    assert set(wrong) == {
        "speed",
        "age_limit",
        "deadlines",
        "share_by",
        "retry.max_attempts",
        "retry.tries",
        "breaker",
        "classes.0.asked_by",
        "classes.0.quota",
        "classes.1.name",
        "classes.2",
    }
    assert wrong["retry.max_attempts"] == "Must be a whole number from 1 to 100."
    assert wrong["share_by"] == "Must be one of turns, cost, cost_time, tokens."
    assert "known here: base_s, budget_floor" in wrong["retry.tries"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, 10**400, "60", None, True])
def test_a_number_out_of_bounds_is_refused(value):
    assert list(errors_of({"age_after": value})) == ["age_after"]


@pytest.mark.parametrize("data", [None, [], "policy"])
def test_data_that_is_no_object_is_refused(data):
    assert errors_of(data) == {"policy": "Must be an object of settings."}


@pytest.mark.parametrize("classes", [[], {}, "normal", [{"name": "x"}] * 21])
def test_a_class_table_needs_one_to_twenty_entries(classes):
    assert list(errors_of({"classes": classes})) == ["classes"]


@pytest.mark.parametrize("name", ["", "  ", 7, "x" * 31])
def test_a_class_needs_a_proper_name(name):
    assert list(errors_of({"classes": [{"name": name}]})) == ["classes.0.name"]


def test_classes_have_different_names_and_the_default_is_one_of_them():
    wrong = errors_of({"classes": [{"name": "a"}, {"name": "a"}], "default_class": "b"})
    assert list(wrong) == ["default_class", "classes.1.name"]


@pytest.mark.parametrize(
    "target", [{"name": "up", "fifo": True}, {"name": "up", "uses_reserve": True}, {"name": "no"}]
)
def test_aging_leads_neither_into_a_fifo_lane_nor_into_the_reserve_nor_nowhere(target):
    classes = [target, {"name": "low", "ages_to": "up"}]
    assert list(errors_of({"classes": classes, "default_class": "low"})) == ["classes.1.ages_to"]


def test_aging_leads_up_only():
    classes = [{"name": "top", "ages_to": "low"}, {"name": "low"}]
    assert list(errors_of({"classes": classes, "default_class": "low"})) == ["classes.0.ages_to"]


@pytest.mark.parametrize(
    ("labels", "fine"),
    [
        (["a", "b"], True),
        ([], True),
        ("a", False),
        (["a", "a"], False),
        ([""], False),
        ([1], False),
        ([str(n) for n in range(21)], False),
    ],
)
def test_a_risk_levels_labels_are_different_names(labels, fine):
    data = {"risk": {"high": {"labels": labels}}}
    if fine:
        assert policy_from_dict(data).risk.high.labels == tuple(labels)
    else:
        assert list(errors_of(data)) == ["risk.high.labels"]


def test_a_data_class_and_a_region_may_be_empty_but_not_blank():
    candidate = {"model": "n", "region": "", "data_class": " "}
    wrong = errors_of({"fallback": [{"model": "m", "candidates": [candidate]}]})
    assert wrong == {
        "fallback.0.candidates.0.data_class": "Must be a name of at most 60 characters, or empty."
    }


def test_a_fallback_list_names_its_model_and_candidates():
    wrong = errors_of({"fallback": [{}, {"model": "m", "candidates": []}]})
    assert set(wrong) == {"fallback.0.model", "fallback.0.candidates", "fallback.1.candidates"}
    assert wrong["fallback.1.candidates"] == (
        "Must be a list of 1 to 10 candidates, the first tried first."
    )


def test_a_model_has_one_fallback_list_of_different_other_models():
    lists = [
        {"model": "m", "candidates": [{"model": "n"}, {"model": "m"}, {"model": "n"}]},
        {"model": "m", "candidates": [{"model": "n"}]},
    ]
    assert list(errors_of({"fallback": lists})) == [
        "fallback.0.candidates.1.model",
        "fallback.0.candidates.2.model",
        "fallback.1.model",
    ]


def test_default_caps_are_told_by_scope_where_they_are_set():
    caps = policy_from_dict({"default_caps": {"user": 2, "tenant": None}}).default_caps
    assert caps.by_scope() == {"user": 2}


def test_every_check_says_what_it_allows():
    assert POLICY["deadlines"].allowed == "true or false"
    assert POLICY["retry"].allowed == "an object of settings"
    assert POLICY["fallback"].allowed == "a list of 0 to 200 fallback lists, one a model"
    cap = POLICY["default_caps"].fields["user"]
    assert cap.allowed == "a whole number from 1 to 1000000, or null"
    labels = POLICY["risk"].fields["low"].fields["labels"]
    assert labels.allowed == (
        "a list of at most 20 different names, each a name of 1 to 60 characters"
    )


def test_the_first_backoff_is_not_above_its_cap():
    assert list(errors_of({"retry": {"base_s": 9, "cap_s": 3}})) == ["retry.base_s"]


def test_an_error_lists_field_and_sentence_in_its_message():
    with pytest.raises(InvalidPolicy, match="age_limit: Must be a whole number"):
        policy_from_dict({"age_limit": -1})


@pytest.mark.parametrize(
    ("share_by", "charge"),
    [("turns", 1), ("cost", 3), ("cost_time", 8), ("tokens", 120)],
)
def test_a_placement_is_charged_by_what_the_policy_shares(share_by, charge):
    policy = Policy(share_by=ShareBy(share_by))
    taken = charge_of(policy, cost=3, expected_s=2.5, input_tokens=100, output_tokens=10)
    assert taken == charge


@given(st.sampled_from(ShareBy), st.integers(1, 50), st.floats(0, 1e6), st.integers(0, 10**6))
def test_a_charge_is_a_whole_number_of_at_least_one_and_rounded_up(share_by, cost, time, tokens):
    policy = Policy(share_by=share_by)
    charge = charge_of(policy, cost=cost, expected_s=time, input_tokens=tokens)
    assert isinstance(charge, int)
    assert charge >= 1
    if share_by is ShareBy.COST_TIME:
        assert cost * time <= charge < cost * time + 1 or charge == 1


def test_a_new_cost_changes_the_charge_unless_tokens_are_shared():
    job = make_job("a", 2, charge=70, expected_s=10.0)
    assert recharged(Policy(), job, 5) == 5
    assert recharged(Policy(share_by=ShareBy.COST_TIME), job, 5) == 50
    assert recharged(Policy(share_by=ShareBy.TURNS), job, 5) == 1
    assert recharged(Policy(share_by=ShareBy.TOKENS), job, 5) == 70

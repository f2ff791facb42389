"""The policy's form in the admin: a field a setting, errors at their fields, audited levers."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from scheduling.admin.policy_form import SCALARS
from scheduling.models import PolicyVersion
from scheduling.selectors.policy import active_policy
from tenants.controls import control_number
from tenants.models import AuditEntry, Membership, Tenant
from tests.scheduling.factories import make_policy

pytestmark = pytest.mark.django_db

FALLBACK = [
    {
        "model": "big",
        "candidates": [{"model": "mid", "quality_floor": 0.5}, {"model": "small", "region": "eu"}],
    },
    {"model": "mid", "candidates": [{"model": "small", "latency_s": 2, "price_ratio": 1}]},
]


def staff(role: str) -> Client:
    user = get_user_model().objects.create_user("olga", is_staff=True)
    tenant = None if role == "operator" else Tenant.objects.create(slug="acme", name="Acme")
    Membership.objects.create(user=user, role=role, tenant=tenant)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def olga(db: None) -> Client:
    """An operator who may enter the admin."""
    return staff("operator")


@pytest.fixture
def number(db: None) -> int:
    return make_policy(
        share_by="turns", fallback=FALLBACK, risk={"high": {"labels": ["eu", "gpu"]}}
    )


def address(number: int) -> str:
    return reverse("admin:scheduling_policyversion_change", args=[number])


def typed(client: Client, number: int, **changes: Any) -> dict[str, Any]:
    """Return what a browser would send of the version's page, with changes by field name."""
    context = client.get(address(number)).context
    parts = [context["adminform"].form]
    for _, formset in context["tables"]:
        parts += [formset.management_form, *formset.forms]
    values = {bound.html_name: bound.value() for form in parts for bound in form}
    sent = {
        name: value
        for name, value in values.items()
        if value not in (None, "") and value is not False
    }
    assert changes.keys() <= values.keys()
    return sent | {"note": "because"} | changes


def press(client: Client, number: int, button: str, **changes: Any) -> Any:
    return client.post(address(number), typed(client, number, **changes) | {button: "x"})


def told(response: Any) -> dict[str, list[str]]:
    """Return the errors of an answer by the field that they stand at."""
    assert response.status_code == 200
    context = response.context
    parts = [context["adminform"].form, *(f for _, table in context["tables"] for f in table.forms)]
    return {
        form.add_prefix(name): list(errors)
        for form in parts
        for name, errors in form.errors.items()
    }


def test_the_form_has_every_setting_with_its_bounds(olga: Client, number: int) -> None:
    page = olga.get(address(number))
    form = page.context["adminform"].form
    assert set(form.fields) == {*SCALARS, "note"}
    shown = {name for _, at in page.context["adminform"].fieldsets for name in at["fields"]}
    assert shown == set(form.fields)
    assert "A whole number from 1 to 100." in form.fields["retry.max_attempts"].help_text
    assert form.fields["share_by"].choices[0] == ("turns", "turns")
    html = page.content.decode()
    for name in (*SCALARS, "classes-0-ages_to", "candidates-2-latency_s", "classes-0-ORDER"):
        assert f'name="{name}"' in html, name


def test_what_is_shown_and_saved_unchanged_is_the_same_policy(olga: Client, number: int) -> None:
    response = press(olga, number, "_draft")
    draft = PolicyVersion.objects.get(state="draft")
    assert response["Location"] == address(draft.number)
    old = PolicyVersion.objects.get(number=number)
    assert draft.body == old.body | {"number": draft.number}
    assert (draft.note, draft.author) == ("because", "olga")
    assert active_policy().number == number


def test_changed_fields_and_rows_are_published_and_audited(olga: Client, number: int) -> None:
    changes = {
        "share_by": "tokens",
        "default_caps.user": "4",
        "deadlines": "on",
        "classes-4-ORDER": "1",
        "classes-4-ages_to": "",
        "classes-3-quota": "9",
        "classes-1-DELETE": "on",
        "classes-5-name": "night",
        "candidates-0-quality_floor": "0.75",
        "risk.high.labels": "eu",
    }
    press(olga, number, "_publish", **changes)
    policy = active_policy()
    assert policy.number == number + 1
    assert (policy.share_by, policy.deadlines, policy.default_caps.user) == ("tokens", True, 4)
    names = [rule.name for rule in policy.classes]
    assert names == ["incident", "batch", "critical", "normal", "night"]
    assert policy.classes[3].quota == 9
    assert policy.fallback[0].candidates[0].quality_floor == 0.75
    assert policy.risk.high.labels == ("eu",)
    entry = AuditEntry.objects.get(number=control_number())
    assert (entry.actor, entry.action, entry.reason) == ("olga", "policy_publish", "because")


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("retry.max_attempts", "0", "greater than or equal to 1"),
        ("age_after", "x", "Enter a number"),
        ("age_limit", "", "required"),
        ("default_class", "nope", "name of a class of the table"),
        ("risk.low.labels", "a, a", "different names"),
        ("note", " ", "required"),
        ("classes-3-ages_to", "expedite", "Must name a class above"),
        ("classes-4-name", "normal", "used by a class before"),
        ("classes-0-quota", "-1", "greater than or equal to 0"),
        ("candidates-1-model", "mid", "another model"),
        ("candidates-0-quality_floor", "2", "less than or equal to 1"),
    ],
)
def test_what_is_wrong_is_told_at_its_field_and_changes_nothing(
    olga: Client, number: int, field: str, value: str, sentence: str
) -> None:
    before = list(PolicyVersion.objects.values()), control_number()
    response = press(olga, number, "_publish", **{field: value})
    wrong = told(response)
    assert field in wrong
    assert sentence in " ".join(wrong[field])
    assert sentence in response.content.decode()
    assert (list(PolicyVersion.objects.values()), control_number()) == before


def test_a_class_table_without_a_class_is_told_above_the_form(olga: Client, number: int) -> None:
    gone = {f"classes-{n}-DELETE": "on" for n in range(5)}
    response = press(olga, number, "_publish", **gone)
    assert "classes: Must be a list of 1 to 20 classes" in response.content.decode()


def test_more_candidates_than_a_list_may_have_are_told_at_its_first(
    olga: Client, number: int
) -> None:
    data = typed(olga, number) | {"_publish": "x", "candidates-TOTAL_FORMS": "13"}
    for n in range(13):
        data |= {
            f"candidates-{n}-instead_of": "big",
            f"candidates-{n}-model": f"m{n}",
            f"candidates-{n}-quality_floor": "0",
        }
    wrong = told(olga.post(address(number), data))
    assert "a list of 1 to 10" in wrong["candidates-0-instead_of"][0]


def test_a_draft_is_edited_in_place_and_published(olga: Client, number: int) -> None:
    press(olga, number, "_draft", age_limit="3")
    draft = PolicyVersion.objects.get(state="draft").number
    response = press(olga, draft, "_draft", age_limit="4", note="better")
    assert response["Location"] == address(draft)
    press(olga, draft, "_publish", age_limit="5", note="best")
    assert (active_policy().number, active_policy().age_limit) == (draft, 5)
    assert PolicyVersion.objects.get(number=draft).note == "best"


def test_a_retired_version_is_rolled_back_to(olga: Client, number: int) -> None:
    make_policy(share_by="cost")
    buttons = olga.get(address(number)).context["buttons"]
    assert set(buttons) == {"_draft", "_roll_back", "_try"}
    assert "note" in told(press(olga, number, "_roll_back", note=""))
    response = press(olga, number, "_roll_back", age_limit="broken, and not asked for")
    assert response["Location"] == address(number + 2)
    assert active_policy().share_by == "turns"


def test_a_version_published_meanwhile_is_told_and_not_written_over(
    olga: Client, number: int
) -> None:
    sent = typed(olga, number) | {"_publish": "x"}
    later = make_policy()
    assert "was published meanwhile" in olga.post(address(number), sent).content.decode()
    press(olga, later, "_draft")
    draft = PolicyVersion.objects.get(state="draft").number
    last = make_policy()
    assert "was published meanwhile" in press(olga, draft, "_publish").content.decode()
    assert active_policy().number == last
    assert press(olga, draft, "_draft")["Location"] == address(last + 1)


def test_an_unknown_version_and_a_new_one_from_nothing_are_not_there(olga: Client) -> None:
    assert olga.get(address(999)).status_code == 302
    assert olga.get(reverse("admin:scheduling_policyversion_add")).status_code == 403


@pytest.mark.parametrize("role", ["tenant_admin", "viewer"])
def test_others_than_operators_see_no_policy(number: int, role: str) -> None:
    client = staff(role)
    assert client.get(address(number)).status_code == 403
    assert client.post(address(number), {"_roll_back": "x", "note": "x"}).status_code == 403
    assert client.get(reverse("admin:scheduling_policyversion_changelist")).status_code == 403
    assert "policyversion" not in client.get(reverse("admin:index")).content.decode()


def test_an_operator_finds_the_list_from_the_index(olga: Client, number: int) -> None:
    listed = reverse("admin:scheduling_policyversion_changelist")
    assert listed in olga.get(reverse("admin:index")).content.decode()
    assert address(number) in olga.get(listed).content.decode()

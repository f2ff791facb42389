"""The levers that raise limits for a time: what they keep, refuse and audit."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from scheduling.controls.limits import MAX_RATE, limit_set
from scheduling.controls.raises import LimitIncrease, limit_raise, limit_raise_end
from scheduling.controls.workflows import workflow_limit
from scheduling.models import LimitRaise, Workflow
from tenants.controls import ControlRefused
from tenants.limits import tenant_limit, workspace_limit
from tenants.models import AuditEntry, Workspace
from tests.scheduling.factories import (
    WHO,
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_tenant,
)

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 8, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
GLOBAL = ("global", "all", "running")


@pytest.fixture
def web() -> Workspace:
    make_price()
    pool = make_pool()
    make_executor(pool)
    return make_tenant("acme", pool)


def cap(subject: tuple[str, str, str], value: int | None = 3) -> None:
    scope, scope_id, measure = subject
    limit_set(scope=scope, scope_id=scope_id, measure=measure, value=value, **WHO)


def lift(subject: tuple[str, str, str], extra: int = 2, **more: Any) -> uuid.UUID:
    by = {"acting_user": "olga", "reason": more.pop("reason", "launch")}
    increase = LimitIncrease(extra=extra, **({"ends_at": NOW + HOUR} | more))
    return limit_raise(subject=subject, increase=increase, now=NOW, **by).id


def test_a_raise_is_kept_with_its_owner_and_audited() -> None:
    cap(GLOBAL)
    made = lift(GLOBAL, owner="eve")
    row = LimitRaise.objects.get()
    assert (row.id, row.extra, row.owner, row.reason) == (made, 2, "eve", "launch")
    assert (row.starts_at, row.ends_at) == (NOW, NOW + HOUR)
    entry = AuditEntry.objects.latest("number")
    assert (entry.action, entry.actor, entry.target_type, entry.target_id) == (
        "limit_raise", "olga", "global", "all",
    )  # fmt: skip
    assert entry.before == {"scope_id": "all", "running": 3}
    assert (entry.after["escalation"], entry.after["extra"]) == (str(made), 2)


def test_who_raises_answers_for_it_unless_somebody_is_named() -> None:
    cap(GLOBAL)
    lift(GLOBAL)
    assert LimitRaise.objects.get().owner == "olga"


def test_caps_that_are_columns_are_raised_in_the_name_of_their_tenant(web: Workspace) -> None:
    flow = Workflow.objects.get()
    tenant_limit(tenant_id=web.tenant_id, max_running=1, **WHO)
    workspace_limit(workspace_id=web.id, max_running=1, **WHO)
    workflow_limit(workflow_id=flow.id, max_running=1, **WHO)
    paths = ("acme", f"acme/{web.slug}", f"acme/{flow.slug}")
    keys = (("tenant", web.tenant_id), ("workspace", web.id), ("workflow", flow.id))
    for (scope, key), path in zip(keys, paths, strict=True):
        lift((scope, str(key), "running"))
        entry = AuditEntry.objects.latest("number")
        assert (entry.tenant_id, entry.before["running"]) == (web.tenant_id, 1)
        assert (entry.before["of"], entry.after["of"]) == (path, path)


def test_a_default_of_the_policy_can_be_raised_and_the_one_holder_of_a_key() -> None:
    make_policy(default_caps={"user": 4})
    lift(("user", "ann", "running"))
    assert AuditEntry.objects.latest("number").before["running"] == 4
    lift(("key", "repo", "running"))
    assert AuditEntry.objects.latest("number").before["running"] == 1


def test_what_has_no_limit_cannot_be_raised(web: Workspace) -> None:
    cap(("tenant", str(web.tenant_id), "tokens_a_minute"))
    for scope, key, measure in (
        GLOBAL,
        ("user", "ann", "running"),
        ("workspace", str(web.id), "running"),
        ("tenant", str(web.tenant_id), "running"),
        ("tenant", str(web.tenant_id), "requests_a_minute"),
    ):
        with pytest.raises(ControlRefused, match="there is nothing to raise") as refused:
            lift((scope, key, measure))
        assert refused.value.field == "scope_id"
    assert not LimitRaise.objects.exists()


@pytest.mark.parametrize(
    ("subject", "wrong", "field"),
    [
        (GLOBAL, {"extra": 0}, "extra"),
        (GLOBAL, {"extra": 1_000_001}, "extra"),
        (("tenant", "x", "tokens_a_minute"), {"extra": MAX_RATE + 1}, "extra"),
        (GLOBAL, {"ends_at": NOW}, "ends_at"),
        (GLOBAL, {"starts_at": NOW + HOUR}, "ends_at"),
        (GLOBAL, {"ends_at": NOW + timedelta(days=400)}, "ends_at"),
        (GLOBAL, {"owner": "x" * 201}, "owner"),
        (GLOBAL, {"reason": " "}, "reason"),
        (("moon", "x", "running"), {}, "scope"),
        (("global", "all", "smell"), {}, "measure"),
        (("workspace", "x", "tokens_a_minute"), {}, "measure"),
        (("key", "x", "tokens_a_minute"), {}, "measure"),
        (("workspace", str(uuid.uuid4()), "running"), {}, "scope_id"),
    ],
)
def test_a_senseless_raise_is_refused_by_field(
    subject: tuple[str, str, str], wrong: dict[str, Any], field: str
) -> None:
    cap(GLOBAL)
    with pytest.raises(ControlRefused) as refused:
        lift(subject, **wrong)
    assert refused.value.field == field
    assert not LimitRaise.objects.exists()


def test_ending_it_early_moves_its_end_and_is_audited() -> None:
    cap(GLOBAL)
    made, later = lift(GLOBAL), NOW + timedelta(minutes=5)
    by = {"acting_user": "eve", "reason": "over", "raise_id": made}
    limit_raise_end(now=later, **by)
    assert LimitRaise.objects.get().ends_at == later
    entry = AuditEntry.objects.latest("number")
    assert (entry.action, entry.actor, entry.reason) == ("limit_raise_end", "eve", "over")
    assert entry.before["ends_at"] != entry.after["ends_at"] == later.isoformat()
    with pytest.raises(ControlRefused, match="ended at"):
        limit_raise_end(now=later, **by)


def test_one_that_has_not_begun_is_ended_before_it_begins() -> None:
    cap(GLOBAL)
    made = lift(GLOBAL, starts_at=NOW + HOUR, ends_at=NOW + 2 * HOUR)
    limit_raise_end(raise_id=made, now=NOW, **WHO)
    row = LimitRaise.objects.get()
    assert row.starts_at == row.ends_at == NOW + HOUR


def test_one_of_what_is_gone_can_be_ended(web: Workspace) -> None:
    workspace_limit(workspace_id=web.id, max_running=1, **WHO)
    made = lift(("workspace", str(web.id), "running"))
    Workspace.objects.filter(id=web.id).delete()
    limit_raise_end(raise_id=made, now=NOW, **WHO)
    assert AuditEntry.objects.latest("number").tenant is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"extra": 0},
        {"ends_at": NOW - HOUR},
        {"scope": "moon"},
        {"scope": "workspace", "measure": "tokens_a_minute"},
        {"scope": "key", "measure": "requests_a_minute"},
    ],
)
def test_the_table_takes_no_raise_that_means_nothing(wrong: dict[str, object]) -> None:
    fields = {"scope": "key", "scope_id": "k", "measure": "running", "extra": 1, "owner": "o",
              "reason": "r", "starts_at": NOW, "ends_at": NOW + HOUR}  # fmt: skip
    with pytest.raises(IntegrityError), transaction.atomic():
        LimitRaise.objects.create(**(fields | wrong))

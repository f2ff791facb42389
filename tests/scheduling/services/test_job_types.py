"""A submitter needs the permission on the type of job, whatever else it may do in the workspace."""

import pytest
from django.utils import timezone
from guardian.shortcuts import assign_perm

from scheduling.core.states import JobState
from scheduling.kinds.registry import KINDS
from scheduling.models import Job
from scheduling.services.drafts import Rights
from scheduling.services.rehearsal import job_rehearse
from tenants.rbac import Permission, job_types, principal_of_user
from tenants.roles import JOB_TYPES
from tests.scheduling.factories import (
    CLASSES,
    asked,
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_tenant,
    submit_all,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def space():
    make_policy()
    make_price(output="1")
    pool = make_pool()
    make_executor(pool)
    return make_tenant("acme", pool)


@pytest.fixture
def ann(django_user_model):
    return django_user_model.objects.create_user("ann")


def only(*job_types: str) -> Rights:
    """Return the rights to these types of job alone, in all classes."""
    return Rights(classes=CLASSES, kinds=frozenset(job_types))


def test_each_kind_names_a_type_of_job():
    assert {name: kind.permission for name, kind in KINDS.items()} == {
        "call": Permission.CHAT_USE,
        "chat": Permission.CHAT_USE,
        "flow": Permission.FLOWS_RUN,
        "translate": Permission.TASKS_RUN,
        "simulated": Permission.TASKS_RUN,
    }


def test_a_job_of_a_type_that_is_not_permitted_is_denied_and_holds_nothing(space):
    (answer,) = submit_all(space, [asked()], rights=only("chat:use"))
    assert (answer.job.state, answer.decision.reason) == (JobState.DENIED, "not_permitted")
    assert "tasks:run" in answer.decision.sentence
    assert answer.decision.reservation_id is None


def test_permission_is_asked_before_anything_that_tells_of_the_system(space):
    (answer,) = submit_all(space, [asked(model="no-such-model")], rights=only())
    assert answer.decision.reason == "not_permitted"


def test_a_dry_run_says_the_same(space):
    rights = only(*(JOB_TYPES - {"tasks:run"}))
    decision = job_rehearse(
        workspace=space, submitted_by="ann", submission=asked(), rights=rights, now=timezone.now()
    )
    assert decision.reason == "not_permitted"
    assert Job.objects.count() == 0


def test_the_api_submits_what_the_callers_permissions_name(space, ann, client):
    for name in ("view", "submit", "chat_use", "ask_submitter"):
        assign_perm(name, ann, space)
    assert job_types(principal_of_user(ann), tenant=space.tenant_id, workspace=space.id) == {
        "chat:use"
    }
    client.force_login(ann, backend="django.contrib.auth.backends.ModelBackend")
    body = {"workspace": "acme/main", "workflow": "build", "kind": "simulated"}
    sent = body | {"payload": {"seconds": 1}}
    refused = client.post("/api/v1/jobs", sent, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (422, "not_permitted")
    assign_perm("tasks_run", ann, space)
    accepted = client.post("/api/v1/jobs", sent, content_type="application/json")
    assert accepted.status_code == 201, accepted.content

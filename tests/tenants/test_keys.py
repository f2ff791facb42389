"""Keys: shown once, stored as a hash, refused when wrong, expired or revoked, and audited."""

from datetime import UTC, datetime, timedelta

import pytest

from tenants.controls import ControlRefused
from tenants.keys import key_authenticate, key_issue, key_revoke
from tenants.models import ApiKey, AuditEntry, Tenant, Workspace

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace():
    tenant = Tenant.objects.create(slug="acme", name="Acme")
    return Workspace.objects.create(tenant=tenant, slug="web", name="Web")


def issue(workspace, **more):
    wanted = {"name": "ci", "role": "submitter", "acting_user": "root", "reason": "for the build"}
    return key_issue(workspace=workspace, **(wanted | more))


def now():
    return datetime.now(UTC)


def test_an_issued_key_authenticates_and_carries_its_workspace(workspace):
    key, secret = issue(workspace)
    assert secret.startswith(f"tlm_{key.prefix}_")
    found = key_authenticate(secret, now())
    assert found is not None
    assert found == key
    assert found.workspace.tenant.slug == "acme"


def test_the_secret_is_stored_nowhere(workspace):
    key, secret = issue(workspace)
    row = ApiKey.objects.filter(id=key.id).values().get()
    entry = AuditEntry.objects.filter(action="key_issue").values().get()
    assert secret not in str(row)
    assert secret not in str(entry)
    assert key.hash not in str(entry)
    assert secret.split("_", 2)[2] not in str(entry)


def test_the_audit_names_who_made_the_key_and_why(workspace):
    key, _ = issue(workspace)
    entry = AuditEntry.objects.get(target_id=str(key.id))
    assert (entry.actor, entry.reason, entry.tenant) == ("root", "for the build", workspace.tenant)
    assert entry.after["role"] == "submitter"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda secret: secret[:-1] + ("A" if secret[-1] != "A" else "B"),
        lambda secret: secret + "x",
        lambda secret: secret.replace("tlm_", "xyz_"),
        lambda secret: secret.upper(),
        lambda _: "",
        lambda _: "tlm_",
        lambda _: "tlm_abc_",
        lambda _: "tlm_\x00\x00_abc",
        lambda _: "tlm_ää_abc",
        lambda _: "tlm_a_" + "x" * 10_000,
    ],
)
def test_a_wrong_secret_is_refused(workspace, spoil):
    _, secret = issue(workspace)
    assert key_authenticate(spoil(secret), now()) is None


def test_a_key_is_refused_from_its_expiry_on(workspace):
    expiry = now() + timedelta(hours=1)
    key, secret = issue(workspace, expires_at=expiry)
    assert key_authenticate(secret, expiry - timedelta(microseconds=1)) == key
    assert key_authenticate(secret, expiry) is None


def test_a_revoked_key_is_refused_and_revoking_twice_writes_one_audit_entry(workspace):
    key, secret = issue(workspace)
    first = key_revoke(key_id=key.id, acting_user="root", reason="left the team")
    again = key_revoke(key_id=key.id, acting_user="root", reason="once more")
    assert key_authenticate(secret, now()) is None
    assert first.revoked_at == again.revoked_at
    assert AuditEntry.objects.filter(action="key_revoke").count() == 1


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"role": "operator"}, "role"),
        ({"role": "king"}, "role"),
        ({"name": "  "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"reason": " "}, "reason"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expires_at"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_a_bad_key_is_refused_by_field_and_nothing_is_stored(workspace, wrong, field):
    with pytest.raises(ControlRefused) as caught:
        issue(workspace, **wrong)
    assert caught.value.field == field
    assert not ApiKey.objects.exists()

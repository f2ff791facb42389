"""API keys: made, shown once, checked and revoked.

A secret is `tlm_<prefix>_<random>`. The prefix finds the row; the random part has 256 bits, so a
plain SHA-256 of the whole secret is enough: there is nothing to guess that a slow hash would
protect. The secret itself is kept nowhere and appears in no log, audit entry or error.
"""

import hashlib
import hmac
import secrets
import uuid
from datetime import datetime

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from tenants.controls import ControlRefused, record_change
from tenants.models import ApiKey, Workspace
from tenants.roles import OPERATOR, ROLES

MARK = "tlm"
PREFIX_BYTES = 6
RANDOM_BYTES = 32
LONGEST_SECRET = 200
KEY_ROLES = [role for role in ROLES if role != OPERATOR]


@transaction.atomic
def key_issue(
    *,
    workspace: Workspace,
    name: str,
    role: str,
    acting_user: str,
    reason: str,
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """Make a key of a workspace; return it with its secret, which nobody can read again.

    Raises `ControlRefused` for a blank or long name, an unknown role, the operator role, an
    expiry that is not in the future, and a missing reason.
    """
    _check(name, role, expires_at)
    prefix = secrets.token_hex(PREFIX_BYTES)
    secret = f"{MARK}_{prefix}_{secrets.token_urlsafe(RANDOM_BYTES)}"
    key = ApiKey.objects.create(
        workspace=workspace,
        name=name.strip(),
        role=role,
        prefix=prefix,
        hash=_digest(secret),
        created_by=get_user_model().objects.filter(username=acting_user).first(),
        expires_at=expires_at,
    )
    record_change(
        actor=acting_user,
        action="key_issue",
        tenant=workspace.tenant,
        target=("api_key", key.id),
        change=({}, _told(key)),
        reason=reason,
    )
    return key, secret


@transaction.atomic
def key_revoke(*, key_id: uuid.UUID, acting_user: str, reason: str) -> ApiKey:
    """Refuse the key from now on; revoking it again changes nothing.

    Raises `ApiKey.DoesNotExist` and, without a reason, `ControlRefused`.
    """
    locked = ApiKey.objects.select_for_update(of=["self"])
    key = locked.select_related("workspace__tenant").get(id=key_id)
    if key.revoked_at is not None:
        return key
    before = _told(key)
    key.revoked_at = timezone.now()
    key.save(update_fields=["revoked_at"])
    record_change(
        actor=acting_user,
        action="key_revoke",
        tenant=key.workspace.tenant,
        target=("api_key", key.id),
        change=(before, _told(key)),
        reason=reason,
    )
    return key


def key_authenticate(secret: str, now: datetime) -> ApiKey | None:
    """Return the key of a secret with its workspace and tenant; None when it may not be used.

    The answer does not tell an unknown key from a revoked or expired one.
    """
    key = _find(secret)
    stored = key.hash if key is not None else "0" * 64
    same = hmac.compare_digest(stored, _digest(secret))
    if key is None or not same or key.revoked_at is not None:
        return None
    return None if key.expires_at is not None and key.expires_at <= now else key


def _find(secret: str) -> ApiKey | None:
    parts = secret.split("_", 2)
    if len(parts) != 3 or parts[0] != MARK or len(secret) > LONGEST_SECRET:
        return None
    if not parts[1].isascii() or not parts[1].isalnum():
        return None
    return ApiKey.objects.select_related("workspace__tenant").filter(prefix=parts[1]).first()


def _check(name: str, role: str, expires_at: datetime | None) -> None:
    if not 1 <= len(name.strip()) <= 100:
        raise ControlRefused("name", "A key needs a name of 1 to 100 characters.")
    if role not in KEY_ROLES:
        sentence = f"A key's role is one of {', '.join(KEY_ROLES)}, not {role!r}."
        raise ControlRefused("role", sentence)
    if expires_at is not None and expires_at <= timezone.now():
        raise ControlRefused("expires_at", "The expiry must be in the future.")


def _told(key: ApiKey) -> dict[str, str | None]:
    """Return what the audit keeps of a key: never its secret or hash."""
    return {
        "name": key.name,
        "role": key.role,
        "prefix": key.prefix,
        "workspace": str(key.workspace_id),
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
    }


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()

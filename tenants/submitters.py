"""From the name that a record keeps of who asked back to the principal that it stands for."""

from django.contrib.auth import get_user_model
from django.utils import timezone

from tenants.models import ApiKey
from tenants.rbac import Principal, principal_of_key, principal_of_user

KEY_MARK = "key:"


def principal_named(name: str) -> Principal:
    """Return the principal of a name as it stands now.

    A revoked or expired key, a person who is not active and an unknown name may do nothing.
    """
    if name.startswith(KEY_MARK):
        return _of_key(name)
    user = get_user_model().objects.filter(username=name).first()
    return principal_of_user(user) if user is not None else Principal(name=name)


def _of_key(name: str) -> Principal:
    prefix = name.removeprefix(KEY_MARK)
    key = ApiKey.objects.select_related("workspace").filter(prefix=prefix).first()
    if key is None or key.revoked_at is not None:
        return Principal(name=name)
    if key.expires_at is not None and key.expires_at <= timezone.now():
        return Principal(name=name)
    return principal_of_key(key)

"""Who calls: `Authorization: Bearer tlm_...`, or the session of someone who is logged in."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from tenants.keys import key_authenticate
from tenants.models import ApiKey
from tenants.rbac import Principal, principal_of_key, principal_of_user

REFUSED = "The API key is not valid: it is unknown, expired or revoked. Use another one."


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """Stands where the framework expects a user when a key calls."""

    name: str
    is_authenticated: bool = True
    is_active: bool = True

    def __str__(self) -> str:
        return self.name


class KeyAuthentication(BaseAuthentication):
    """Accepts a workspace's key; a wrong one is an error, never an anonymous caller."""

    def authenticate(self, request: Request) -> tuple[KeyHolder, ApiKey] | None:
        """Return the key; None when the request carries none."""
        words = get_authorization_header(request).split()
        if not words or words[0].lower() != b"bearer":
            return None
        if len(words) != 2:
            raise AuthenticationFailed("Send the header as: Authorization: Bearer <key>.")
        key = key_authenticate(words[1].decode("latin-1"), timezone.now())
        if key is None:
            raise AuthenticationFailed(REFUSED)
        return KeyHolder(name=f"key:{key.prefix}"), key

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge of a 401."""
        return 'Bearer realm="telemachus"'


class KeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes the key in the OpenAPI schema."""

    target_class = KeyAuthentication
    name = "apiKey"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        """Return the scheme."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "tlm_<prefix>_<secret>"}


def principal_again(request: Request) -> Callable[[], Principal | None]:
    """Return what asks anew who calls, by the same key or session; None: it is valid no more."""
    if isinstance(request.auth, ApiKey):
        secret = get_authorization_header(request).split()[1].decode("latin-1")
        return partial(_again_by_key, secret)
    return partial(_again_by_session, request._request.session.session_key)


def _again_by_key(secret: str) -> Principal | None:
    key = key_authenticate(secret, timezone.now())
    return None if key is None else principal_of_key(key)


def _again_by_session(session_key: str | None) -> Principal | None:
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    holder: Any = SimpleNamespace(session=store)
    user = get_user(holder)
    return principal_of_user(user) if user.is_authenticated and user.is_active else None


def principal_of(request: Request) -> Principal:
    """Return who calls, with roles."""
    if isinstance(request.auth, ApiKey):
        return principal_of_key(request.auth)
    return principal_of_user(request.user)

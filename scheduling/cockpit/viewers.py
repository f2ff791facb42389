"""From a session to a viewer: who is behind a socket or page, and what exists for that person.

Sockets ask again every few seconds, so a log-out, a new password, a lost membership or a switched
off account ends a socket within seconds and not at its next connect.
"""

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connections

from scheduling.cockpit.board import Viewer
from tenants.models import Workspace
from tenants.rbac import Permission, Principal, principal_of_user, reach, visible_tenants

T = TypeVar("T")


def viewer_of_user(user: AbstractBaseUser | AnonymousUser) -> Viewer | None:
    """Return the viewer of a signed-in person, None for anybody else."""
    if not user.is_authenticated or not user.is_active or user.pk is None:
        return None
    principal = principal_of_user(user)
    tenants = visible_tenants(principal)
    if tenants is None:
        return Viewer(user_id=user.pk, name=principal.name, tenants=None, costs=None)
    whole = reach(principal, Permission.VIEW).tenants
    return Viewer(
        user_id=user.pk,
        name=principal.name,
        tenants=frozenset(map(str, tenants)),
        partly=frozenset(str(tenant) for tenant in tenants - whole),
        workspaces=_workspaces(principal),
        costs=frozenset(map(str, reach(principal, Permission.COSTS).tenants)),
    )


def _workspaces(principal: Principal) -> frozenset[tuple[str, str]]:
    seen = reach(principal, Permission.VIEW).workspaces
    rows = Workspace.objects.filter(pk__in=seen).values_list(
        "tenant_id", "pk", "slug", "tenant__slug"
    )
    return frozenset(
        (str(tenant), name)
        for tenant, key, slug, tenant_slug in rows
        for name in (str(key), slug, f"{tenant_slug}/{slug}")
    )


def viewer_of_session(session_key: str) -> Viewer | None:
    """Return the viewer of a live session, None when it has ended or its account has."""
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    request: Any = SimpleNamespace(session=store)
    return viewer_of_user(get_user(request))


def with_connections_closed(work: Callable[[], T]) -> T:
    """Run database work in a pool thread and give its connection back."""
    try:
        return work()
    finally:
        connections.close_all()

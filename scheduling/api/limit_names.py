"""Whose a limit is: by name as people give it, by id as it is kept."""

import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from scheduling.api.problems import invalid
from scheduling.models import Executor, Pool, Workflow
from scheduling.services.drafts import FieldError
from tenants.controls import ControlRefused
from tenants.models import Tenant, Workspace

OF = "A slug of a pool, executor or tenant, a provider, a user or a key; all for the scope global."
OF_RAISED = f"{OF[:-1]}; tenant/workspace and tenant/workflow for those."
_Slugged: TypeAlias = type[Pool] | type[Executor] | type[Tenant]
_Inside: TypeAlias = type[Workspace] | type[Workflow]
_BY_SLUG: Mapping[str, _Slugged] = MappingProxyType(
    {"pool": Pool, "executor": Executor, "tenant": Tenant}
)
_BY_PATH: Mapping[str, _Inside] = MappingProxyType({"workspace": Workspace, "workflow": Workflow})


def names() -> dict[str, str]:
    """Return the slugs of what is named by its id."""
    return {
        str(one): slug
        for model in _BY_SLUG.values()
        for one, slug in model.objects.values_list("id", "slug")
    }


def paths() -> dict[str, str]:
    """Return the slugs of what is named by its id, and the paths of workspaces and workflows."""
    return names() | {
        str(one): f"{tenant}/{slug}"
        for model in _BY_PATH.values()
        for one, tenant, slug in model.objects.values_list("id", "tenant__slug", "slug")
    }


def id_of(scope: str, named: str) -> str:
    """Return what a limit of the scope is kept under, given its name; raise a 400 `Problem`."""
    if scope not in _BY_SLUG:
        return named
    found = _BY_SLUG[scope].objects.filter(slug=named).values_list("id", flat=True).first()
    return _found(scope, named, found)


def raised_id_of(scope: str, named: str) -> str:
    """Return the same for what may be raised: a workspace's or workflow's cap, too, by its path."""
    if scope not in _BY_PATH:
        return id_of(scope, named)
    tenant, _, slug = named.partition("/")
    rows = _BY_PATH[scope].objects.filter(tenant__slug=tenant, slug=slug)
    return _found(scope, named, rows.values_list("id", flat=True).first())


def _found(scope: str, named: str, found: uuid.UUID | None) -> str:
    if found is None:
        raise invalid(FieldError(field="of", sentence=f"There is no {scope} {named!r}."))
    return str(found)


def told_of(lever: Callable[..., int], **asked: object) -> int:
    """Pull a lever; what is wrong with the id is told of the field that names it here."""
    try:
        return lever(**asked)
    except ControlRefused as refused:
        field = "of" if refused.field == "scope_id" else refused.field
        raise ControlRefused(field, refused.sentence) from refused

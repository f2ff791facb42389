"""Backpressure that parallel submissions cannot overshoot: near a cap they are counted one by one.

Theory. A count sees what is committed, so submissions at once do not see each other, and together
could pass a cap by all that is in flight. Far from a cap that does not matter and nobody waits.
Near one, each takes a lock of that scope for as long as its transaction lasts, and counts again
behind it. Near is what may be in flight: a share of the cap, `MARGIN` jobs, or `AT_ONCE` sets of
this size, whichever is most. A transaction that looked before the backlog grew by all of that and
commits after it may still go past the cap, by its own set.

The locks are taken outermost first, each kind in a space of its own, so two submissions never wait
for each other in a circle; and before any row but the workspace's.
"""

from collections.abc import Sequence
from dataclasses import replace

from django.db import connection
from django.db.models import Count

from scheduling.core.policy.settings import BacklogCaps
from scheduling.models import Job
from scheduling.models.job import BACKLOG, LIVE
from scheduling.services.catalogue import Backlog, Catalogue
from scheduling.services.drafts import Draft
from tenants.models import Workspace

SPACES = {"all": 7_402, "tenant": 7_403, "workspace": 7_404}
"""The first key of each scope's advisory locks; the second is the hash of its id."""
SHARE, MARGIN, AT_ONCE = 0.05, 1_000, 32

_LOCK = "SELECT pg_advisory_xact_lock(%s, hashtext(%s))"
_OWN = """
SELECT count(*) FILTER (WHERE workspace_id = %s), count(*) FROM scheduling_job
WHERE tenant_id = %s AND state = ANY(%s)
"""
_ALL = "SELECT count(*) FROM scheduling_job WHERE state = ANY(%s)"


def weighed(catalogue: Catalogue, drafts: Sequence[Draft]) -> Catalogue:
    """Return the catalogue with exact counts of what the drafts come near the caps of.

    Must be called in the transaction that stores them, before any job or budget is locked.
    """
    classes = _classes(catalogue, drafts)
    near = _near(catalogue, drafts)
    backlog = _counted(catalogue, near) if near else catalogue.backlog
    if backlog is None or not (near or classes):
        return catalogue
    return replace(catalogue, backlog=replace(backlog, classes=classes))


def caps_of(caps: BacklogCaps, *, shed: bool) -> dict[str, int]:
    """Return the cap of each scope, as it is for a class that is shed or is not."""
    total = int(caps.total * caps.shed_share) if shed else caps.total
    return {"all": total, "tenant": caps.tenant, "workspace": caps.workspace}


def _near(catalogue: Catalogue, drafts: Sequence[Draft]) -> list[str]:
    """Return the scopes that are near a cap of any of the drafts, outermost first."""
    found = set()
    for shed in {draft.rule.sheddable for draft in drafts}:
        caps = caps_of(catalogue.policy.backlog, shed=shed)
        for scope, waiting in catalogue.waiting().items():
            margin = max(SHARE * caps[scope], MARGIN, AT_ONCE * len(drafts))
            if abs(caps[scope] - waiting) <= margin:
                found.add(scope)
    return [scope for scope in SPACES if scope in found]


def _counted(catalogue: Catalogue, near: Sequence[str]) -> Backlog:
    space = catalogue.workspace
    ids = {"all": "", "tenant": str(space.tenant_id), "workspace": str(space.id)}
    with connection.cursor() as cursor:
        for scope in near:
            cursor.execute(_LOCK, [SPACES[scope], ids[scope]])
        cursor.execute(_OWN, [space.id, space.tenant_id, BACKLOG])
        own, tenant = cursor.fetchone()
        total = None
        if "all" in near:
            cursor.execute(_ALL, [BACKLOG])
            total = cursor.fetchone()[0]
    return Backlog(workspace=own, tenant=tenant, total=total)


def _classes(catalogue: Catalogue, drafts: Sequence[Draft]) -> dict[str, int]:
    """Count the workspace's jobs of the classes whose quota binds a draft, behind its row's lock."""
    names = {one.rule.name for one in drafts if one.rule.quota is not None and one.bound_by_quota}
    if not names:
        return {}
    space = catalogue.workspace
    Workspace.objects.select_for_update(no_key=True).only("id").get(id=space.id)
    rows = Job.objects.filter(workspace=space, job_class__in=names, state__in=LIVE)
    found = dict(rows.order_by().values_list("job_class").annotate(Count("id")))
    return {name: found.get(name, 0) for name in names}

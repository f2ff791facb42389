"""One version of a pool's order as the web process holds it, and who may see which rows of it.

A board never changes after it is made, so all sockets share it without locks. Row selections (by
viewer and filter) and finished views are kept with it: fifty operators who look at the same cost
one pass.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from scheduling.cockpit.window import View
from scheduling.snapshot import ExecutorRow, Header, Rows, RunningRow, TenantRow

Places: TypeAlias = npt.NDArray[np.intp]
Mask: TypeAlias = npt.NDArray[np.bool_]

SELECTIONS_KEPT = 64
VIEWS_KEPT = 512

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """A signed-in person; `tenants` None sees all of them, else only the ids named.

    Of the tenants in `partly` only some workspaces are seen: those named in `workspaces` as pairs
    of the tenant's id and any of the workspace's names (id, slug, `tenant/workspace`). `costs` are
    the tenants whose money the person may see, None again for all.
    """

    user_id: int
    name: str
    tenants: frozenset[str] | None
    partly: frozenset[str] = frozenset()
    workspaces: frozenset[tuple[str, str]] = frozenset()
    costs: frozenset[str] | None = frozenset()

    @property
    def scope(self) -> Hashable:
        """Return what decides what is seen: to viewers of one scope a board looks the same."""
        return self.tenants, self.partly, self.workspaces, self.costs

    def sees(self, tenant_id: str) -> bool:
        """Say whether this tenant exists for the viewer."""
        return self.tenants is None or tenant_id in self.tenants

    def sees_all_of(self, tenant_id: str) -> bool:
        """Say whether all workspaces of this tenant exist for the viewer."""
        return self.sees(tenant_id) and tenant_id not in self.partly

    def sees_work(self, tenant_id: str, workspace: str) -> bool:
        """Say whether the jobs of this workspace exist for the viewer."""
        return self.sees_all_of(tenant_id) or (tenant_id, workspace) in self.workspaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A header with its rows; `selections` and `views` are caches, not part of the value."""

    header: Header
    rows: Rows
    selections: dict[object, Places] = field(default_factory=dict, compare=False, repr=False)
    views: dict[Hashable, View] = field(default_factory=dict, compare=False, repr=False)

    @property
    def version(self) -> tuple[int, int]:
        """Return (epoch, seq)."""
        return self.header.epoch, self.header.seq

    def tenants_of(self, viewer: Viewer) -> list[TenantRow]:
        """Return the tenants that the viewer sees, by slug."""
        seen = [tenant for tenant in self.header.tenants if viewer.sees(tenant.id)]
        return sorted(seen, key=lambda tenant: (tenant.slug, tenant.id))

    def executors_of(self, viewer: Viewer) -> list[ExecutorRow]:
        """Return the executors that are open to everybody or to a tenant the viewer sees."""
        return [
            executor
            for executor in self.header.executors
            if executor.tenant is None or viewer.sees(executor.tenant)
        ]

    def running_of(self, viewer: Viewer) -> list[RunningRow]:
        """Return the live attempts of the workspaces that the viewer sees."""
        tenants, workspaces = self.header.tenants, self.header.workspaces
        return [
            row
            for row in self.header.running
            if viewer.sees_work(tenants[row.tenant].id, workspaces[row.workspace])
        ]

    def mask_of(self, viewer: Viewer) -> Mask:
        """Return which rows the viewer sees."""
        if viewer.tenants is None:
            return np.ones(len(self.rows), dtype=bool)
        tenants = enumerate(self.header.tenants)
        whole = [n for n, tenant in tenants if viewer.sees_all_of(tenant.id)]
        mask = self.numbered("tenant", whole)
        for number, tenant in enumerate(self.header.tenants):
            if tenant.id in viewer.partly and viewer.sees(tenant.id):
                mask |= self.numbered("tenant", [number]) & self._workspaces(viewer, tenant.id)
        return mask

    def _workspaces(self, viewer: Viewer, tenant_id: str) -> Mask:
        named = enumerate(self.header.workspaces)
        return self.numbered("workspace", [n for n, w in named if viewer.sees_work(tenant_id, w)])

    def numbered(self, column: str, numbers: list[int]) -> Mask:
        """Return which rows have one of these numbers of the header's lists in `column`."""
        return np.isin(self.rows[column], numbers)

    def keep(self, key: object, places: Places) -> Places:
        """Remember a selection; the oldest goes when there are too many."""
        return _keep(self.selections, key, places, SELECTIONS_KEPT)

    def keep_view(self, key: Hashable, view: View) -> View:
        """Remember a finished view; the oldest goes when there are too many."""
        return _keep(self.views, key, view, VIEWS_KEPT)


def _keep(cache: dict[K, T], key: K, value: T, most: int) -> T:
    while len(cache) >= most:
        cache.pop(next(iter(cache)), None)
    cache[key] = value
    return value

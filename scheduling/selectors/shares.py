"""Reading shares: each tenant's planned and actual part of a pool, others only as counts."""

import uuid
from dataclasses import dataclass

from scheduling.snapshot import Header, TenantRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """All tenants that the viewer may not see, as one: counts alone."""

    tenants: int
    waiting: int
    running: int
    in_use: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShares:
    """The shares of one pool at the moment of its header."""

    header: Header
    tenants: tuple[TenantRow, ...]
    others: Others


def pool_shares(header: Header, visible: frozenset[uuid.UUID] | None) -> PoolShares:
    """Return the shares that may be seen (None: all) and the sum of the others."""
    seen = [row for row in header.tenants if visible is None or uuid.UUID(row.id) in visible]
    known = {row.id for row in seen}
    hidden = [row for row in header.tenants if row.id not in known]
    return PoolShares(
        header=header,
        tenants=tuple(seen),
        others=Others(
            tenants=len(hidden),
            waiting=sum(row.waiting for row in hidden),
            running=sum(row.running for row in hidden),
            in_use=sum(row.in_use for row in hidden),
        ),
    )

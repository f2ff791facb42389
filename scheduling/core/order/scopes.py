"""Scopes: jobs that count under the same own-limit keys, and which of those keys are blocked.

A job counts under its `limits` and always under its own tenant and workspace, so a hold of the
tenant reaches every job of it; one that is `UNLIMITED` counts under nothing. A key is blocked while
at least one reason stands against it, and a scope is shut while at least one of its keys is blocked.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

from scheduling.core.types import UNLIMITED, Job, LimitKey

IDLE_MOST = 64
"""Scopes without jobs are kept for the next job, up to so many or as many as have jobs."""
Identity: TypeAlias = tuple[str, str, tuple[LimitKey, ...]]


def identity(job: Job) -> Identity:
    """What two jobs of one scope have in common."""
    return job.tenant, job.workspace, job.limits


class Scope:
    """One set of keys: `shut` counts the blocked ones, `size` the jobs.

    For `waiting`: its `sublines` by the class in which jobs stand, and `by_age`, by the own class of
    the jobs: their tenant's climb with their subline there.
    """

    __slots__ = ("by_age", "identity", "keys", "shut", "size", "sublines")

    def __init__(self, identity: Identity) -> None:
        tenant, workspace, limits = identity
        self.identity = identity
        own = (("tenant", tenant), ("workspace", workspace), *limits)
        self.keys: frozenset[LimitKey] = frozenset(() if limits == UNLIMITED else own)
        self.shut = 0
        self.size = 0
        self.sublines: dict[str, Any] = {}
        self.by_age: dict[str, tuple[Any, Any]] = {}


class Scopes:
    """All scopes with jobs, found by job and by key, and the blocks.

    A scope whose last job has left stays for the next one: a tenant whose jobs come one at a time
    would else make it, its lines and its keys anew for each. When more than `IDLE_MOST` and more
    than half of all are idle, these are dropped, so that they cost no more than what is in use.
    """

    __slots__ = ("_by_identity", "_by_key", "_idle", "_whys")

    def __init__(self) -> None:
        self._by_identity: dict[Identity, Scope] = {}
        self._by_key: dict[LimitKey, dict[Scope, None]] = {}
        self._whys: dict[LimitKey, set[str]] = {}
        self._idle = 0

    def __len__(self) -> int:
        return len(self._by_identity)

    def any_shut(self) -> bool:
        """Whether any scope with jobs is kept out of the lines."""
        return any(scope.shut and scope.size for scope in self._by_identity.values())

    def enter(self, named: Identity, jobs: int = 1) -> Scope:
        """The scope of that identity, with so many jobs counted in."""
        scope = self._by_identity.get(named)
        if scope is None:
            scope = self._open(named)
        elif not scope.size:
            self._idle -= 1
        scope.size += jobs
        return scope

    def _open(self, named: Identity) -> Scope:
        scope = self._by_identity[named] = Scope(named)
        for key in scope.keys:
            self._by_key.setdefault(key, {})[scope] = None
            scope.shut += key in self._whys
        return scope

    def leave(self, scope: Scope) -> None:
        """Count a job out."""
        scope.size -= 1
        if not scope.size:
            self._idle += 1
            if self._idle > IDLE_MOST and 2 * self._idle > len(self):
                self._drop_idle()

    def _drop_idle(self) -> None:
        for scope in [scope for scope in self._by_identity.values() if not scope.size]:
            del self._by_identity[scope.identity]
            for key in scope.keys:
                del self._by_key[key][scope]
                if not self._by_key[key]:
                    del self._by_key[key]
        self._idle = 0

    def block(self, key: LimitKey, why: str) -> list[Scope]:
        """Set a reason against a key; the scopes that this shut."""
        whys = self._whys.setdefault(key, set())
        fresh = not whys
        whys.add(why)
        return self._turn(key, 1, 1) if fresh else []

    def unblock(self, key: LimitKey, why: str) -> list[Scope]:
        """Take a reason away (an absent one is no error); the scopes that this opened."""
        whys = self._whys.get(key)
        if whys is None or why not in whys:
            return []
        whys.remove(why)
        if whys:
            return []
        del self._whys[key]
        return self._turn(key, -1, 0)

    def _turn(self, key: LimitKey, by: int, until: int) -> list[Scope]:
        scopes = list(self._by_key.get(key, ()))
        for scope in scopes:
            scope.shut += by
        return [scope for scope in scopes if scope.shut == until and scope.size]

    def blocks(self) -> Iterable[tuple[LimitKey, str]]:
        """Every block that stands, in a fixed order."""
        return [(key, why) for key in sorted(self._whys) for why in sorted(self._whys[key])]

    def why(self, scope: Scope) -> tuple[tuple[LimitKey, str], ...]:
        """What shuts this scope, in a fixed order."""
        if not scope.shut:
            return ()
        blocked = sorted(scope.keys & self._whys.keys())
        return tuple((key, why) for key in blocked for why in sorted(self._whys[key]))

"""Scopes: jobs that count under the same own-limit keys, and which of those keys are blocked.

A job counts under its `limits` and always under its own tenant and workspace, so a hold of the
tenant reaches every job of it; one that is `UNLIMITED` counts under nothing. A key is blocked while
at least one reason stands against it, and a scope is shut while at least one of its keys is blocked.
"""

from collections.abc import Iterable
from typing import TypeAlias

from scheduling.core.types import UNLIMITED, Job, LimitKey

Identity: TypeAlias = tuple[str, str, tuple[LimitKey, ...]]


def identity(job: Job) -> Identity:
    """What two jobs of one scope have in common."""
    return job.tenant, job.workspace, job.limits


class Scope:
    """One set of keys: `shut` counts the blocked ones, `size` the jobs."""

    __slots__ = ("identity", "keys", "shut", "size")

    def __init__(self, identity: Identity) -> None:
        tenant, workspace, limits = identity
        self.identity = identity
        own = (("tenant", tenant), ("workspace", workspace), *limits)
        self.keys: frozenset[LimitKey] = frozenset(() if limits == UNLIMITED else own)
        self.shut = 0
        self.size = 0


class Scopes:
    """All scopes with jobs, found by job and by key, and the blocks."""

    __slots__ = ("_by_identity", "_by_key", "_whys")

    def __init__(self) -> None:
        self._by_identity: dict[Identity, Scope] = {}
        self._by_key: dict[LimitKey, dict[Scope, None]] = {}
        self._whys: dict[LimitKey, set[str]] = {}

    def any_shut(self) -> bool:
        """Whether any scope is kept out of the lines."""
        return any(scope.shut for scope in self._by_identity.values())

    def enter(self, job: Job) -> Scope:
        """The job's scope, with the job counted in."""
        named = identity(job)
        scope = self._by_identity.get(named) or self._open(named)
        scope.size += 1
        return scope

    def _open(self, named: Identity) -> Scope:
        scope = self._by_identity[named] = Scope(named)
        for key in scope.keys:
            self._by_key.setdefault(key, {})[scope] = None
            scope.shut += key in self._whys
        return scope

    def leave(self, scope: Scope) -> bool:
        """Count a job out; the last one ends the scope (True)."""
        scope.size -= 1
        if scope.size:
            return False
        del self._by_identity[scope.identity]
        for key in scope.keys:
            del self._by_key[key][scope]
            if not self._by_key[key]:
                del self._by_key[key]
        return True

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
        return [scope for scope in scopes if scope.shut == until]

    def blocks(self) -> Iterable[tuple[LimitKey, str]]:
        """Every block that stands, in a fixed order."""
        return [(key, why) for key in sorted(self._whys) for why in sorted(self._whys[key])]

    def why(self, scope: Scope) -> tuple[tuple[LimitKey, str], ...]:
        """What shuts this scope, in a fixed order."""
        blocked = sorted(scope.keys & self._whys.keys())
        return tuple((key, why) for key in blocked for why in sorted(self._whys[key]))

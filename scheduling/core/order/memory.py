"""The service memory of the lines while it is in use: the working form of `Memory`, and weights.

A line's position is turn + used / weight: how many of its turns it has been served. Everything
here moves a position, and each move notes the line among the changed ones, for the shell to save.

`lifts` counts more than the raises. It goes up whenever the line becomes backlogged, raised or not,
and whenever its weight is lowered. Both times a refund for a job placed before would hand out a
burst: after idle time the line may stand high only because of the charge that would be refunded,
and without it the class would have raised it; and a charge taken at weight 10 must not come back
at weight 1. A positive correction only sets its own line back, so it always counts.
"""

from collections.abc import Mapping

from scheduling.core.types import Memory, MemoryKey


def step(turn: int, used: int, charge: int, weight: int) -> tuple[int, int]:
    """The memory after `charge` (negative: a refund) has been taken of a line of this weight."""
    total = used + charge
    return turn + total // weight, total % weight


class Share:
    """One line's memory and weight."""

    __slots__ = (
        "_changed",
        "backlogged",
        "key",
        "last_placed_at",
        "lifts",
        "top",
        "turn",
        "used",
        "weight",
    )

    def __init__(
        self, key: MemoryKey, memory: Memory, weight: int, changed: dict[MemoryKey, "Share"]
    ) -> None:
        self.key = key
        self.turn = memory.turn
        self.used = min(memory.used, weight - 1)
        self.lifts = memory.lifts
        self.top = memory.top
        self.last_placed_at = memory.last_placed_at
        self.backlogged = False
        self.weight = weight
        self._changed = changed

    def note(self) -> None:
        """Put this line among those that the shell must save."""
        self._changed[self.key] = self

    def take(self, charge: int) -> None:
        """Charge a placement."""
        self.turn, self.used = step(self.turn, self.used, charge, self.weight)
        self._changed[self.key] = self

    def correct(self, delta: int, lifts: int) -> None:
        """Charge `delta` more; a refund is dropped when `lifts` has changed since the placement."""
        if delta > 0 or (delta < 0 and lifts == self.lifts):
            self.take(delta)

    def begin(self, top: int) -> None:
        """Become backlogged: no lower than `top`, the highest turn placed from the lines beside.

        Not to be told of a line that is backlogged.
        """
        self.backlogged = True
        self.lifts += 1
        if top > self.turn:
            self.turn, self.used = top, 0
        self.note()

    def rest(self) -> None:
        """Stop being backlogged."""
        self.backlogged = False
        self.note()

    def reach(self, turn: int) -> None:
        """A job was placed at `turn` from one of the lines below."""
        if turn > self.top:
            self.top = turn
            self.note()

    def stamp(self, now: float) -> None:
        """A job of this class and tenant was placed."""
        self.last_placed_at = now
        self.note()

    def reweigh(self, weight: int) -> None:
        """Change the weight: the turn stays, for a new division would rewrite the past."""
        if weight == self.weight:
            return
        if weight < self.weight and self.lifts:
            self.lifts += 1
        self.weight = weight
        self.used = min(self.used, weight - 1)
        self.note()

    def freeze(self) -> Memory:
        """The memory as a value."""
        return Memory(
            turn=self.turn,
            used=self.used,
            lifts=self.lifts,
            top=self.top,
            last_placed_at=self.last_placed_at,
            backlogged=self.backlogged,
        )


class Memories:
    """The memory and weight of every line of a pool.

    A line that is not known yet has the memory that was handed in, or an empty one. Raises
    ValueError for a weight below 1.
    """

    __slots__ = ("_changed", "_saved", "_shares", "_weights", "_workspace_weights")

    def __init__(
        self,
        saved: Mapping[MemoryKey, Memory],
        weights: Mapping[str, int],
        workspace_weights: Mapping[str, int],
    ) -> None:
        self._saved = dict(saved)
        self._weights = dict(weights)
        self._workspace_weights = dict(workspace_weights)
        for name, weight in (*weights.items(), *workspace_weights.items()):
            _check_weight(name, weight)
        self._shares: dict[MemoryKey, Share] = {}
        self._changed: dict[MemoryKey, Share] = {}

    @property
    def weights(self) -> tuple[dict[str, int], dict[str, int]]:
        """The weights that were set, of tenants and of workspaces."""
        return dict(self._weights), dict(self._workspace_weights)

    def share(self, key: MemoryKey) -> Share:
        """The working memory of a line."""
        found = self._shares.get(key)
        if found is None:
            memory = self._saved.get(key, Memory())
            found = self._shares[key] = Share(key, memory, self.weight(key), self._changed)
        return found

    def weight(self, key: MemoryKey) -> int:
        """The weight of a line, 1 where none was set."""
        _, tenant, workspace = key
        if workspace is not None:
            return self._workspace_weights.get(workspace, 1)
        return 1 if tenant is None else self._weights.get(tenant, 1)

    def set_weight(self, tenant: str, weight: int) -> None:
        """Change the weight of a tenant in every class."""
        _check_weight(tenant, weight)
        self._reweigh([key for key in self._keys() if key[1] == tenant and key[2] is None], weight)
        self._weights[tenant] = weight

    def set_workspace_weight(self, workspace: str, weight: int) -> None:
        """Change the weight of a workspace in every class."""
        _check_weight(workspace, weight)
        self._reweigh([key for key in self._keys() if key[2] == workspace], weight)
        self._workspace_weights[workspace] = weight

    def _reweigh(self, keys: list[MemoryKey], weight: int) -> None:
        for key in keys:
            self.share(key).reweigh(weight)

    def _keys(self) -> list[MemoryKey]:
        return list(self._saved | self._shares)

    def resume(self) -> list[Share]:
        """Believe the saved memory about which lines are backlogged; those lines."""
        shares = [self.share(key) for key, memory in self._saved.items() if memory.backlogged]
        for share in shares:
            share.backlogged = True
        return shares

    def read(self, key: MemoryKey) -> Memory:
        """The memory of a line as a value."""
        found = self._shares.get(key)
        return self._saved.get(key, Memory()) if found is None else found.freeze()

    def all(self) -> dict[MemoryKey, Memory]:
        """Every memory as a value."""
        return {key: self.read(key) for key in self._keys()}

    def changes(self) -> dict[MemoryKey, Memory]:
        """The memories that changed since the last call."""
        changes = {key: share.freeze() for key, share in self._changed.items()}
        self._changed.clear()
        return changes


def _check_weight(name: str, weight: int) -> None:
    if weight < 1:
        msg = f"weight of {name!r} is {weight}; it must be 1 or more (hold it to stop it)"
        raise ValueError(msg)

"""The fair merge with memory, used twice: workspaces inside a tenant, tenants inside a class.

Theory. Each branch of a fair merge remembers how many of its turns it has been served; a turn is as
much charge as the branch's weight. The branch whose head has the least (turn, submitted_at, seq) is
next, and a placement moves its branch on by charge / weight turns. The turn of a head is the
branch's remembered turn itself, since less than one turn's charge of it is used. A branch that
becomes backlogged starts no lower than the highest turn served beside it, so while heads are placed
every backlogged branch stands at `top` or above, and less than 1 + cmax / weight above it: idle
time banks nothing, and being ahead has a bounded cost.

A job that is placed although jobs ahead of it were skipped is charged like a head, and `top` rises
to its branch's remembered turn, not to the turn that counts the skipped jobs: these have not been
served, and a newcomer lifted to a turn behind them all would wait for all of them.
"""

from collections.abc import Iterator, Sequence

from scheduling.core.order.heads import Heads, Key, Source, Step
from scheduling.core.order.lines import Above, Line
from scheduling.core.order.memory import Memories, Share, step
from scheduling.core.types import ClassRule, MemoryKey


class Fair:
    """The merge of branches; `share` holds what it remembers of itself (here: `top`)."""

    __slots__ = ("above", "heads", "share")

    def __init__(self, share: Share) -> None:
        self.share = share
        self.above: Above | None = None
        self.heads = Heads()

    def head(self) -> Step | None:
        """The first step of a walk, or None."""
        branch: Branch | None = self.heads.first()
        if branch is None:
            return None
        head = branch.below.head()
        return None if head is None else (head[0], (branch.share.turn, *head[1]))

    def walk(self) -> Iterator[Step]:
        """All jobs in order."""
        return self.heads.walk()

    def settle(self, branch: "Branch") -> bool:
        """Note the head of `branch` as it is now; lift it if it has just become backlogged.

        Say whether its key changed.
        """
        source, share = branch.below.heads.first(), branch.share
        if source is not None:
            if not share.backlogged:
                share.begin(self.share.top)
            return self.heads.put(branch, source.job, share.turn)
        if not self.heads.drop(branch):
            return False
        share.rest()
        return True


class Branch(Source):
    """One tenant in a class, or one workspace in a tenant: a line with a weight and a memory."""

    __slots__ = ("below", "parent", "share")

    def __init__(self, parent: Fair, share: Share, below: Fair | Line) -> None:
        super().__init__()
        self.parent = parent
        self.share = share
        self.below = below
        below.above = self

    def refresh(self) -> None:
        """The line's head may have changed: look again, upwards as long as heads change."""
        parent = self.parent
        if parent.settle(self) and parent.above is not None:
            parent.above.refresh()

    def renew(self) -> None:
        """The line's turn and those above it may have changed too: look again, up to the top."""
        parent = self.parent
        parent.settle(self)
        if parent.above is not None:
            parent.above.renew()

    def place(self, charge: int) -> tuple[int, ...]:
        """Charge a placement at this level and above; the lift counts, outermost first."""
        above = self.parent.above
        lifts = () if above is None else above.place(charge)
        self.parent.share.reach(self.share.turn)
        self.share.take(charge)
        return (*lifts, self.share.lifts)

    def ahead(self) -> Iterator[tuple[Key, Step]]:
        """Every job with the turn in which it is served if all ahead of it are."""
        share = self.share
        turn, used, weight = share.turn, share.used, share.weight
        for job, turns in self.below.walk():
            yield (turn, job.submitted_at, job.seq), (job, (turn, *turns))
            turn, used = step(turn, used, job.charge, weight)


class Tree:
    """The classes of a pool with their tenants and workspaces, grown as jobs come."""

    __slots__ = ("_branches", "_deadlines", "_lines", "_memories", "_tenants", "roots")

    def __init__(
        self, classes: Sequence[ClassRule], memories: Memories, *, deadlines: bool
    ) -> None:
        self._memories = memories
        self._deadlines = deadlines
        self._branches: dict[MemoryKey, Branch] = {}
        self._tenants: dict[tuple[str, str], Fair] = {}
        self._lines: dict[tuple[str, str, str], Line] = {}
        self.roots: dict[str, Fair | Line] = {
            rule.name: Line(rule.name)
            if rule.fifo
            else Fair(memories.share((rule.name, None, None)))
            for rule in classes
        }

    def line(self, class_name: str, tenant: str, workspace: str) -> Line:
        """The line in which jobs of this class and workspace stand."""
        root = self.roots[class_name]
        if isinstance(root, Line):
            return root
        line = self._lines.get((class_name, tenant, workspace))
        if line is None:
            line = Line(class_name, deadlines=self._deadlines)
            self._lines[class_name, tenant, workspace] = line
            self._grow(self._tenant(root, class_name, tenant), line, workspace)
        return line

    def _tenant(self, root: Fair, class_name: str, tenant: str) -> Fair:
        fair = self._tenants.get((class_name, tenant))
        if fair is None:
            fair = Fair(self._memories.share((class_name, tenant, None)))
            self._tenants[class_name, tenant] = fair
            self._branches[fair.share.key] = Branch(root, fair.share, fair)
        return fair

    def _grow(self, fair: Fair, line: Line, workspace: str) -> None:
        key = (line.class_name, fair.share.key[1], workspace)
        self._branches[key] = Branch(fair, self._memories.share(key), line)

    def refresh(self, key: MemoryKey) -> None:
        """Look again at a line whose memory was corrected."""
        branch = self._branches.get(key)
        if branch is not None:
            branch.renew()

    def is_backlogged(self, key: MemoryKey) -> bool:
        """Whether the line has startable jobs."""
        branch = self._branches.get(key)
        return branch is not None and branch.entry is not None

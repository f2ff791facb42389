"""The fair order straight from the rules, with dictionaries and sorting: slow, plain, for tests.

It keeps only jobs, blocks, weights, memory and the class in which each job stands. Lines, heads and
turns are worked out anew whenever they are asked for.
"""

from dataclasses import dataclass, field

from scheduling.core.types import ClassRule, Job, LimitKey, Spot


@dataclass
class Remembered:
    turn: int = 0
    used: int = 0
    lifts: int = 0
    top: int = 0
    last: float | None = None


@dataclass
class Reference:
    classes: tuple[ClassRule, ...]
    age_after: float = 0
    age_limit: int = 10
    deadlines: bool = False
    jobs: dict[str, Job] = field(default_factory=dict)
    stands: dict[str, str] = field(default_factory=dict)
    blocks: set[tuple[LimitKey, str]] = field(default_factory=set)
    weights: dict[str, int] = field(default_factory=dict)
    memory: dict[tuple[str, str | None, str | None], Remembered] = field(default_factory=dict)

    def at(
        self, class_name: str, tenant: str | None = None, workspace: str | None = None
    ) -> Remembered:
        return self.memory.setdefault((class_name, tenant, workspace), Remembered())

    def weight(self, name: str) -> int:
        return self.weights.get(name, 1)

    # --- which jobs are in lines ---

    def startable(self) -> list[Job]:
        blocked = {key for key, _ in self.blocks}
        return [
            job
            for job in self.jobs.values()
            if not blocked & {("tenant", job.tenant), ("workspace", job.workspace), *job.limits}
        ]

    def fair(self, class_name: str) -> bool:
        return not next(rule.fifo for rule in self.classes if rule.name == class_name)

    def backlogged(self) -> set[tuple[str, str, str | None]]:
        lines: set[tuple[str, str, str | None]] = set()
        for job in self.startable():
            stands = self.stands[job.id]
            if self.fair(stands):
                lines |= {(stands, job.tenant, None), (stands, job.tenant, job.workspace)}
        return lines

    def lift(self, before: set[tuple[str, str, str | None]]) -> None:
        for class_name, tenant, workspace in self.backlogged() - before:
            line = self.at(class_name, tenant, workspace)
            line.lifts += 1
            beside = self.at(class_name) if workspace is None else self.at(class_name, tenant)
            if beside.top > line.turn:
                line.turn, line.used = beside.top, 0

    # --- changes ---

    def add(self, job: Job) -> None:
        before = self.backlogged()
        self.jobs[job.id] = job
        self.stands[job.id] = job.class_name
        self.lift(before)

    def remove(self, job_id: str) -> None:
        del self.jobs[job_id], self.stands[job_id]

    def replace(self, job: Job) -> None:
        self.jobs[job.id] = job

    def block(self, key: LimitKey, why: str) -> None:
        self.blocks.add((key, why))

    def unblock(self, key: LimitKey, why: str) -> None:
        before = self.backlogged()
        self.blocks.discard((key, why))
        self.lift(before)

    def set_weight(self, name: str, weight: int) -> None:
        lowered = weight < self.weight(name)
        self.weights[name] = weight
        for (_, tenant, workspace), line in self.memory.items():
            if name == (tenant if workspace is None else workspace):
                line.used = min(line.used, weight - 1)
                line.lifts += lowered and line.lifts > 0

    def charge(self, line: Remembered, name: str, charge: int) -> None:
        whole = line.turn * self.weight(name) + line.used + charge
        line.turn, line.used = divmod(whole, self.weight(name))

    def place(self, spot: Spot, now: float) -> tuple[int, int]:
        job = self.jobs[spot.job.id]
        before = self.backlogged()
        lifts = (0, 0)
        if self.fair(spot.class_name):
            tenant = self.at(spot.class_name, job.tenant)
            workspace = self.at(spot.class_name, job.tenant, job.workspace)
            lifts = tenant.lifts, workspace.lifts
            root = self.at(spot.class_name)
            root.top = max(root.top, tenant.turn)
            tenant.top = max(tenant.top, workspace.turn)
            self.charge(tenant, job.tenant, job.charge)
            self.charge(workspace, job.workspace, job.charge)
        self.at(job.class_name, job.tenant).last = now
        self.remove(job.id)
        for other in self.jobs.values():
            if (other.tenant, other.class_name) == (job.tenant, job.class_name):
                self.stands[other.id] = other.class_name
        self.lift(before)
        return lifts

    def correct(
        self,
        class_name: str,
        tenant: str,
        workspace: str,
        delta: int,
        lifts: int,
        workspace_lifts: int,
    ) -> None:
        if not self.fair(class_name):
            return
        for line, name, then in (
            (self.at(class_name, tenant), tenant, lifts),
            (self.at(class_name, tenant, workspace), workspace, workspace_lifts),
        ):
            if delta > 0 or then == line.lifts:
                self.charge(line, name, delta)

    def advance(self, now: float) -> None:
        before = self.backlogged()
        startable = self.startable()
        for job in self.jobs.values():
            self.stands[job.id] = job.class_name
        for job in startable:
            peers = [
                other
                for other in startable
                if (other.tenant, other.class_name) == (job.tenant, job.class_name)
            ]
            older = [p for p in peers if (p.submitted_at, p.seq) < (job.submitted_at, job.seq)]
            if len(older) < self.age_limit:
                self.stands[job.id] = self.aged_class(job, now)
        self.lift(before)

    def aged_class(self, job: Job, now: float) -> str:
        names = [rule.name for rule in self.classes]
        rule = self.classes[names.index(job.class_name)]
        if rule.ages_to is None or not self.age_after:
            return job.class_name
        last = self.at(job.class_name, job.tenant).last
        since = job.submitted_at if last is None else max(job.submitted_at, last)
        between = names[names.index(rule.ages_to) : names.index(job.class_name)]
        ladder = [job.class_name, *(name for name in reversed(between) if self.fair(name))]
        reached = [rung for rung in range(len(ladder)) if since + rung * self.age_after <= now]
        return ladder[max(reached, default=0)]

    # --- the order ---

    def order(self) -> list[Spot]:
        spots: list[Spot] = []
        for rule in self.classes:
            jobs = [job for job in self.startable() if self.stands[job.id] == rule.name]
            if rule.fifo:
                jobs.sort(key=lambda job: (job.submitted_at, job.seq))
                spots += [self.spot(job, rule.name, None, None) for job in jobs]
            else:
                spots += self.fair_order(rule.name, jobs)
        return spots

    def spot(self, job: Job, class_name: str, turn: int | None, workspace_turn: int | None) -> Spot:
        return Spot(job=job, class_name=class_name, turn=turn, workspace_turn=workspace_turn)

    def fair_order(self, class_name: str, jobs: list[Job]) -> list[Spot]:
        lines = {}
        inner = {}
        for tenant in {job.tenant for job in jobs}:
            own = [job for job in jobs if job.tenant == tenant]
            workspaces = {
                name: sorted((job for job in own if job.workspace == name), key=self.own_key)
                for name in {job.workspace for job in own}
            }
            memories = {name: self.at(class_name, tenant, name) for name in workspaces}
            merged = self.merge(workspaces, memories)
            inner.update({job.id: turn for job, turn in merged})
            lines[tenant] = [job for job, _ in merged]
        memories = {tenant: self.at(class_name, tenant) for tenant in lines}
        return [
            self.spot(job, class_name, turn, inner[job.id])
            for job, turn in self.merge(lines, memories)
        ]

    def own_key(self, job: Job) -> tuple[float, float, int]:
        deadline = float("inf") if job.deadline is None else job.deadline
        return (deadline if self.deadlines else 0, job.submitted_at, job.seq)

    def merge(
        self, lines: dict[str, list[Job]], memories: dict[str, Remembered]
    ) -> list[tuple[Job, int]]:
        """Take the least head again and again; a head's turn counts the charges ahead of it."""
        left = {name: list(jobs) for name, jobs in lines.items()}
        ahead = dict.fromkeys(lines, 0)
        merged = []
        while any(left.values()):
            heads = []
            for name, jobs in left.items():
                if jobs:
                    used = memories[name].used + ahead[name]
                    turn = memories[name].turn + used // self.weight(name)
                    heads.append((turn, jobs[0].submitted_at, jobs[0].seq, name))
            turn, _, _, name = min(heads)
            job = left[name].pop(0)
            ahead[name] += job.charge
            merged.append((job, turn))
        return merged

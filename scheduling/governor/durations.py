"""How long jobs hold capacity: the mean of the last runs of a (tenant, workflow), else of the tenant.

A run counts from its dispatch to its settlement, for that is how long its units are in use. Of a job
that was reviewed the run before its review counts.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from django.db import connection

LAST_RUNS = 20

_LAST = """
SELECT w.tenant_id::text, w.id::text, extract(epoch FROM r.ended_at - r.dispatched_at)::float8
FROM scheduling_workflow w CROSS JOIN LATERAL (
    SELECT a.dispatched_at, a.ended_at
    FROM (SELECT id, fence - (phase = 'review')::int AS fence FROM scheduling_job
          WHERE workflow_id = w.id AND (finished_at IS NOT NULL OR phase = 'review')
          ORDER BY seq DESC LIMIT 4 * %s) j
    JOIN scheduling_attempt a ON a.job_id = j.id AND a.fence = j.fence
    WHERE a.state = 'complete' ORDER BY a.ended_at DESC LIMIT %s
) r WHERE %s::uuid[] IS NULL OR w.tenant_id = ANY(%s::uuid[]) ORDER BY r.ended_at
"""


@dataclass(slots=True)
class Durations:
    """Recent run times in seconds; `given` are the workflows' own estimates, `default` the last."""

    default: float
    given: Mapping[str, float] = field(default_factory=dict)
    _runs: dict[str, deque[float]] = field(default_factory=dict)
    _workflows: set[str] = field(default_factory=set)
    _means: dict[str, float] = field(default_factory=dict)

    def load(self, tenants: Collection[str] | None = None) -> None:
        """Read the last runs of every workflow, or of those of some tenants."""
        named = None if tenants is None else list(tenants)
        with connection.cursor() as cursor:
            cursor.execute(_LAST, [LAST_RUNS, LAST_RUNS, named, named])
            self.learn_all(cursor.fetchall())

    def learn_all(self, rows: Iterable[tuple[str, str, float]]) -> None:
        """Learn (tenant, workflow, seconds) rows, oldest first."""
        for tenant, workflow, seconds in rows:
            self.learn(tenant, workflow, seconds)

    def learn(self, tenant: str, workflow: str, seconds: float) -> None:
        """Count one complete run."""
        self._workflows.add(workflow)
        for key in (workflow, tenant):
            runs = self._runs.setdefault(key, deque(maxlen=LAST_RUNS))
            runs.append(max(0.0, seconds))
            self._means.pop(key, None)

    def expected(self, tenant: str, workflow: str) -> float:
        """Return the expected seconds of a run, always above 0."""
        if own := self._mean(workflow):
            return own
        return self.given.get(workflow) or self._mean(tenant) or self.default

    def knows(self, workflow: str) -> bool:
        """Tell whether a run of the workflow was measured."""
        return workflow in self._workflows

    def measured(self) -> dict[str, float]:
        """Return the mean run time of every workflow that was measured, and of nothing else."""
        means = {workflow: self._mean(workflow) for workflow in self._workflows}
        return {workflow: mean for workflow, mean in means.items() if mean is not None}

    def _mean(self, key: str) -> float | None:
        mean = self._means.get(key)
        if mean is None and (runs := self._runs.get(key)):
            mean = self._means[key] = max(0.001, sum(runs) / len(runs))
        return mean

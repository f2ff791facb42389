"""Placement: which executors may run a job, and which of them takes it (DESIGN 4.4).

An executor may run a job when the job's workspace can see it, it is available, it serves the job's
kind, offers its model and all its tools, stands in its region, may be given its class of data, is
of its compute class, its labels hold all labels that the job requires, the job's funds reach it,
and no circuit of what the job would run there is open.
A requirement left empty asks for nothing; a property left empty by the executor promises nothing.
Nothing is ever relaxed to fit capacity: a job without such an executor waits, with that reason.

Among those with a free slot the least loaded by in_use / (slots x weight) is chosen (the weighted
least-connection rule), then the smallest id.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from scheduling.core.types import Executor, Job


def only_rest(job: Job, executors: Iterable[Executor]) -> bool:
    """Tell whether nothing but open circuits keeps all of `executors` from running `job`."""
    return any(_may_run(replace(one, resting=frozenset()), job) for one in executors if one.resting)


def candidates(job: Job, executors: Iterable[Executor]) -> tuple[Executor, ...]:
    """Return the executors that may run `job`, busy or not, by id."""
    eligible = (executor for executor in executors if _may_run(executor, job))
    return tuple(sorted(eligible, key=lambda executor: executor.id))


def choose(eligible: Iterable[Executor], in_use: Mapping[str, int]) -> Executor:
    """Return the least loaded of `eligible` that has a free slot.

    `in_use` counts the live jobs per executor id; an executor that is missing there is idle. Raises
    ValueError when none has a free slot: the walk over the order asks for that first.
    """
    free = [executor for executor in eligible if in_use.get(executor.id, 0) < executor.slots]
    if not free:
        message = "No executor has a free slot; ask the walk before choosing."
        raise ValueError(message)
    return free[0] if len(free) == 1 else min(free, key=lambda one: (_load(one, in_use), one.id))


def _load(executor: Executor, in_use: Mapping[str, int]) -> float:
    return in_use.get(executor.id, 0) / (executor.slots * executor.weight)


def _may_run(executor: Executor, job: Job) -> bool:
    return (
        executor.available
        and not executor.rests(job.model)
        and _visible(executor, job)
        and _capable(executor, job)
    )


def _visible(executor: Executor, job: Job) -> bool:
    return executor.tenant in (None, job.tenant) and executor.workspace in (None, job.workspace)


def _capable(executor: Executor, job: Job) -> bool:
    return (
        (not job.kind or job.kind in executor.kinds)
        and (not job.model or job.model in executor.models)
        and (not job.region or job.region == executor.region)
        and (not job.places or executor.id in job.places)
        and job.labels <= executor.labels
        and job.tools <= executor.tools
        and (not job.data_class or job.data_class in executor.data_classes)
        and (not job.compute_class or job.compute_class == executor.compute_class)
    )

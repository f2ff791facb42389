"""The seam where a house's own queue policy replaces admit, order or place.

A queue policy is a class derived from `QueuePolicy`; the setting QUEUE_POLICY names it by its
dotted path. Each method it overrides replaces one rule; the others stay the built-in ones. The
shell calls the hooks through the functions below, which hold the bounds within which no hook can
break what the rest relies on:

- `admit` may refuse or defer what the house would take, with a reason and sentence of its own. It
  cannot take what the house refuses: such an answer is dropped, for nothing would fund the job.
- `order` says where a waiting job stands: in which class, at what charge, with what deadline
  (which counts inside its workspace's line, if the policy lets deadlines count). The laws of the
  order hold for whatever it says: its tenants' shares are shares of the charges that it sets, and
  it has no say in whose line a job stands in, in weights, holds or capacity.
- `place` picks one of the executors that may run the job and have a free slot, or nothing else.

Hooks are pure: same arguments, same answer, no clock and no database, for they run in the
governor's cycle, in every forecast of it and in each submission. The values that they are given and
return are `msgspec` Structs: `msgspec.structs.replace` copies one with changes. What breaks a bound in `order` and
`place` is a fault of that class and raises `BrokenQueuePolicy`, which names it.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from scheduling.core.admission import Answer, Facts, admit
from scheduling.core.placement import choose
from scheduling.core.policy.settings import Policy
from scheduling.core.types import Executor, Job, Verdict

_STRICTNESS = {
    Verdict.ADMITTED: 0,
    Verdict.QUEUED: 0,
    Verdict.DEFERRED: 1,
    Verdict.DENIED: 2,
}


class BrokenQueuePolicy(ValueError):
    """A custom queue policy gave an answer that it may not give."""


class Standing(Struct, frozen=True, kw_only=True):
    """Where a waiting job stands: its class, its charge (>= 1), its deadline (epoch seconds)."""

    class_name: str
    charge: int
    deadline: float | None


class QueuePolicy:
    """The built-in rules; override what is to be different."""

    def admit(self, facts: Facts) -> Answer:
        """Return the verdict on a job; `scheduling.core.admission` has the built-in one."""
        return admit(facts)

    def order(self, job: Job) -> Standing:
        """Return where a waiting job stands; asked again of a job whose cost has changed.

        Then the job comes with the class and deadline of the last answer and the policy's charge
        for the new cost.
        """
        return Standing(class_name=job.class_name, charge=job.charge, deadline=job.deadline)

    def place(self, job: Job, free: Sequence[Executor], in_use: Mapping[str, int]) -> Executor:
        """Return the executor of `free` (by id, one at least) that takes the job.

        `in_use` counts the live jobs by executor id; one that is missing there is idle.
        """
        return choose(free, in_use)


BUILT_IN = QueuePolicy()


def admitted(queue: QueuePolicy, facts: Facts) -> Answer:
    """Return the queue policy's verdict, or the built-in one where that is stricter."""
    answer = queue.admit(facts)
    if queue is BUILT_IN:
        return answer
    least = admit(facts)
    return least if _STRICTNESS[answer.verdict] < _STRICTNESS[least.verdict] else answer


def standing(queue: QueuePolicy, policy: Policy, job: Job) -> Job:
    """Return the job as it stands by the queue policy; raise `BrokenQueuePolicy`."""
    if queue is BUILT_IN:
        return job
    stands = queue.order(job)
    if policy.class_named(stands.class_name) is None:
        raise _broken(queue, f"orders job {job.id} into {stands.class_name!r}, which is no class")
    if type(stands.charge) is not int or stands.charge < 1:
        raise _broken(queue, f"charges {stands.charge!r} for job {job.id}; whole numbers from 1 on")
    return replace(
        job, class_name=stands.class_name, charge=stands.charge, deadline=stands.deadline
    )


def chosen(
    queue: QueuePolicy, job: Job, eligible: Sequence[Executor], in_use: Mapping[str, int]
) -> Executor:
    """Return the executor that takes a job that fits; raise `BrokenQueuePolicy` for a wrong one."""
    if queue is BUILT_IN:
        return choose(eligible, in_use)
    free = [one for one in eligible if in_use.get(one.id, 0) < one.slots]
    executor = queue.place(job, free, in_use)
    if executor not in free:
        raise _broken(queue, f"places job {job.id} where it may not run or no slot is free")
    return executor


def _broken(queue: QueuePolicy, what: str) -> BrokenQueuePolicy:
    kind = type(queue)
    message = f"The queue policy {kind.__module__}.{kind.__qualname__} {what}; mend it or unset it."
    return BrokenQueuePolicy(message)

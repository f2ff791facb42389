"""Short ways to build jobs, executors and pool states for tests of the core."""

from itertools import count

from scheduling.core.order.order import Order
from scheduling.core.policy.limits import Limits
from scheduling.core.policy.settings import Policy
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Executor, Job, Live, Pool

_arrivals = count(1)


def make_job(name, cost=1, *, tenant="a", expected_s=60.0, **changes):
    seq = next(_arrivals)
    return Job(
        **{
            "id": name,
            "seq": seq,
            "tenant": tenant,
            "workspace": f"{tenant}-1",
            "submitted_at": 0.0,
            "class_name": "normal",
            "cost": cost,
            "charge": cost,
            "expected_s": expected_s,
            **changes,
        }
    )


def make_live(job, *, executor="x", class_name=None, started_at=0.0, model=""):
    return Live(
        job_id=job.id,
        tenant=job.tenant,
        workspace=job.workspace,
        cost=job.cost,
        class_name=class_name or job.class_name,
        executor=executor,
        started_at=started_at,
        expected_s=job.expected_s,
        limits=job.limits,
        shared=job.shared,
        workflow=job.workflow,
        by_worker=job.by_worker,
        model=model,
    )


def make_executor(name="x", slots=1000, models=(), **changes):
    return Executor(
        **{
            "id": name,
            "kinds": frozenset(),
            "slots": slots,
            "models": frozenset(models),
            **changes,
        }
    )


def make_order(policy, **changes):
    return Order(
        classes=policy.classes,
        age_after=policy.age_after,
        age_limit=policy.age_limit,
        deadlines=policy.deadlines,
        **changes,
    )


def make_state(
    budget=6, reserve=0, *, jobs=(), live=(), executors=None, caps=None, policy=None, limits=None
):
    policy = policy or Policy()
    state = PoolState(
        pool=Pool(id="p", budget=budget, reserve=reserve),
        policy=policy,
        order=make_order(policy),
        executors={one.id: one for one in executors or [make_executor()]},
        limits=limits or Limits(caps or {}),
    )
    for one in live:
        state.start(one)
    for job in jobs:
        state.wait(job)
    return state

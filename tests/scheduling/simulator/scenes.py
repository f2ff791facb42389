"""Short ways to build scenarios and to play them, for tests of the simulator."""

from scheduling.core.policy.settings import BacklogCaps, Policy
from scheduling.core.types import Executor, Pool
from scheduling.simulator.engine import play
from scheduling.simulator.scenario import Lever, Scenario, SimJob, Station, Tenant

PLENTY = 10**9
NO_CAPS = BacklogCaps(workspace=PLENTY, tenant=PLENTY, total=PLENTY)


def station(name="x", slots=100, *, pool="p", kind="simulated", rates=(None, None), **executor):
    return Station(
        executor=Executor(id=name, kinds=frozenset({kind}), slots=slots, **executor),
        pool=pool,
        requests_per_min=rates[0],
        tokens_per_min=rates[1],
    )


def reviewer(name="r", slots=1, *, pool="p"):
    return station(name, slots, pool=pool, kind="human")


def job(name, tenant="a", at=0.0, duration=60.0, **more):
    return SimJob(id=name, tenant=tenant, at=at, duration=duration, **more)


def lever(at, do, **more):
    return Lever(at=at, do=do, **more)


def policy(**more):
    return Policy(**{"backlog": NO_CAPS, "age_after": 0.0} | more)


def scene(jobs, budget=1, **more):
    ordered = sorted(jobs, key=lambda one: one.at)
    names = dict.fromkeys(one.tenant for one in ordered)
    given = {
        "pools": (Pool(id="p", budget=budget),),
        "stations": (station(slots=max(budget, 1)),),
        "tenants": tuple(Tenant(name=name) for name in names),
        "policy": policy(),
        "arrivals": lambda: iter(ordered),
        "job_count": len(ordered),
    }
    return Scenario(**given | more)


def played(scenario):
    """Return the events of a run without the summary, and the summary."""
    events = []
    summary = play(scenario, events.append)
    assert events.pop() is summary
    return events, summary


def told(events, name, *keys):
    """Return of each event of that name its time, its job and the keys asked for."""
    return [
        (one["t"], one.get("job"), *(one.get(key) for key in keys))
        for one in events
        if one["event"] == name
    ]


def facts(events, name, job_id=None):
    """Return the facts of the first event of that name (of a job)."""
    return next(
        one["facts"]
        for one in events
        if one["event"] == name and (job_id is None or one.get("job") == job_id)
    )

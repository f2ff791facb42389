"""Short ways to write jobs and orders in the tests of the fair order."""

from scheduling.core.order.order import Order
from scheduling.core.types import ClassRule, Job

NORMAL = (ClassRule(name="normal"),)
LADDER = (
    ClassRule(name="critical"),
    ClassRule(name="normal", ages_to="critical"),
    ClassRule(name="batch", ages_to="critical"),
)


def job(name, seq, tenant="A", at=0.0, class_name="normal", **facts):
    """A job of its tenant's only workspace unless told otherwise."""
    facts.setdefault("workspace", tenant.lower())
    return Job(id=name, seq=seq, tenant=tenant, submitted_at=at, class_name=class_name, **facts)


def batch(tenant, count, first=0, at=0.0, **facts):
    """`count` jobs of one tenant, submitted together."""
    return [job(f"{tenant}{n}", n, tenant, at, **facts) for n in range(first, first + count)]


def filled(jobs, classes=NORMAL, **settings):
    """An order with these jobs."""
    order = Order(classes=classes, **settings)
    for each in jobs:
        order.add(each)
    return order


def names(spots):
    """The ids of the jobs in order, as one sentence."""
    return " ".join(spot.job.id for spot in spots)


def place_next(order, now=0.0):
    """Place the first job of all and give its spot."""
    order.advance(now)
    spot = next(order.walk_all())
    order.place(spot, now)
    return spot


def serve(order, count, now=0.0):
    """Place the first job again and again; the tenants served, in order."""
    return [place_next(order, now).job.tenant for _ in range(count)]

"""The capacity rules straight from the text, slow and plain: the first startable job of an order.

Nothing is remembered: every question is answered anew from the list of live jobs. `order` is a list
of jobs with their class; `live` a list of (job, class name, executor id, started_at).
"""

from collections import Counter

RESERVE = {"incident"}


def in_use(live, classes=None):
    return sum(job.cost for job, name, *_ in live if classes is None or classes(name))


def free(pool, live, name):
    left = pool.budget - in_use(live)
    if name in RESERVE:
        return left
    others = in_use(live, lambda one: one not in RESERVE)
    return min(left, pool.budget - pool.reserve - others)


def reached(keys, caps, live, field):
    counts = Counter(key for job, *_ in live for key in getattr(job, field))
    return {key for key in keys if key in caps and counts[key] >= caps[key]}


def may_run(job, executor):
    return executor.available and (not job.model or job.model in executor.models)


def load(executor, live, *, manned=False):
    return sum(one == executor.id and (job.by_worker or not manned) for job, _, one, _ in live)


def takes(executor, job, live):
    """A slot must be free, and a worker too for a job that needs one."""
    if load(executor, live) >= executor.most:
        return False
    return not job.by_worker or load(executor, live, manned=True) < executor.slots


def weight(executor, job, live):
    if job.by_worker:
        return load(executor, live, manned=True) / (executor.slots * executor.weight)
    return load(executor, live) / (executor.most * executor.weight)


def shadow(pool, live, head, name, now):
    """When the head can start by the planned ends, and the units then beyond its cost."""
    times = sorted({now, *(max(now, at + job.expected_s) for job, _, _, at in live)})
    for time in times:
        left = [one for one in live if max(now, one[3] + one[0].expected_s) > time]
        if time == now and free(pool, live, name) >= head.cost:
            left = live
        if free(pool, left, name) >= head.cost:
            return time, free(pool, left, name) - head.cost
    raise AssertionError(head)


def first_startable(  # noqa: C901, PLR0912 - the text, test by test, in one place
    order, *, pool, live, executors, caps, now, easy=False
):
    """The first (job, class name, executor, backfilled) that may start, or None."""
    head, stopped, closed, closed_limits = None, set(), set(), set()
    for job, name in order:
        part = "incident" if name in RESERVE else "general"
        if reached(job.limits, caps, live, "limits"):
            continue
        closed_limits |= reached(job.shared, caps, live, "shared")
        if closed_limits & set(job.shared):
            continue
        able = [one for one in executors if may_run(job, one)]
        if not able:
            continue
        if free(pool, live, name) < job.cost:
            if part not in stopped:
                head = head or (job, name)
                stopped |= {"general", part}
            continue
        open_ones = [one for one in able if takes(one, job, live) and one.id not in closed]
        if not open_ones:
            closed |= {one.id for one in able if load(one, live) >= one.most}
            continue
        if part in stopped:
            if not easy:
                continue
            at, extra = shadow(pool, live, *head, now)
            if now + job.expected_s > at and job.cost > extra:
                continue
        best = min(open_ones, key=lambda one: (weight(one, job, live), one.id))
        return job, name, best, part in stopped
    return None


def place_all(order, *, live, now, **settings):
    """Place one job at a time, beginning again from nothing after each."""
    order, live, placed = list(order), list(live), []
    while found := first_startable(order, live=live, now=now, **settings):
        job, name, executor, backfilled = found
        placed.append((job.id, executor.id, backfilled))
        live.append((job, name, executor.id, now))
        order.remove((job, name))
    return placed

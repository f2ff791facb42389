"""`manage.py forecast [--pool SLUG]`: the next 24 hours of a pool, and how good its ETAs were."""

import time
from collections.abc import Iterator, Sequence

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q
from django.utils import timezone
from redis import RedisError

from scheduling.events import valkey_client
from scheduling.models import PolicyVersion, Pool
from scheduling.selectors.foresight.budgets import BudgetAhead, budgets_ahead
from scheduling.selectors.foresight.history import GROUPINGS
from scheduling.selectors.foresight.honesty import SPANS, Honesty, eta_honesty
from scheduling.selectors.foresight.outlook import Asked, PoolAhead, pool_ahead
from scheduling.selectors.queue import moment, pool_header
from scheduling.snapshot import Header
from tenants.models import Tenant


class Command(BaseCommand):
    """Prints tables; changes nothing."""

    help = "What comes to a pool in the next 24 hours, what waits, and what capacity that asks for."

    def add_arguments(self, parser: CommandParser) -> None:
        """Which pool, how to group, and the targets of the advice."""
        asked = Asked()
        parser.add_argument("--pool", help="its slug; needed when there are several")
        parser.add_argument("--by", choices=list(GROUPINGS), default=asked.by)
        parser.add_argument("--target-wait", type=float, default=asked.target_wait_s, help="s")
        parser.add_argument("--outage", type=float, default=asked.outage_s, help="seconds")
        parser.add_argument("--recover", type=float, default=asked.recover_s, help="seconds")

    def handle(self, *_args: object, pool: str | None, **options: float | str) -> None:
        """Print it."""
        targets = [float(options[name]) for name in ("target_wait", "outage", "recover")]
        if min(targets) <= 0:
            raise CommandError("--target-wait, --outage and --recover must be above 0 seconds.")
        asked = Asked(
            by=str(options["by"]),
            target_wait_s=targets[0],
            outage_s=targets[1],
            recover_s=targets[2],
        )
        row = _pool(pool)
        try:
            found = pool_ahead(row, asked, _header(row), time.time())
        except PolicyVersion.DoesNotExist as error:
            raise CommandError(str(error)) from error
        now = timezone.now()
        slugs = {str(key): slug for key, slug in Tenant.objects.values_list("id", "slug")}
        parts = (
            _summary(found, asked),
            _hours(found),
            _groups(asked.by, found, slugs),
            _budgets(*budgets_ahead(Q(), now)),
            *(_honesty(span, eta_honesty(row, span, now), slugs) for span in SPANS),
        )
        for lines in parts:
            self.stdout.writelines(f"{line}\n" for line in lines)


def _pool(slug: str | None) -> Pool:
    pools = list(Pool.objects.filter(slug=slug) if slug else Pool.objects.all())
    if len(pools) != 1:
        known = ", ".join(Pool.objects.values_list("slug", flat=True)) or "none yet"
        message = f"Name a pool with --pool; there are: {known}."
        raise CommandError(message)
    return pools[0]


def _header(pool: Pool) -> Header | None:
    """While the order is not to be had, the backlog is counted in the rows."""
    try:
        return pool_header(valkey_client(), pool)
    except RedisError:
        return None


def _summary(found: PoolAhead, asked: Asked) -> Iterator[str]:
    few, mean, many = (_span(one) for one in found.clear_s)
    advice = found.advice
    yield f"Pool {found.pool.slug}. {found.said}"
    yield f"{found.backlog} jobs wait; while more comes they are gone in {mean} ({few} to {many})."
    yield (
        f"For a mean wait of {asked.target_wait_s:g} s: {_units(advice.units)} units, "
        f"{_units(advice.units_high)} if many jobs come; there are {advice.units_now}."
    )
    yield (
        f"To clear an outage of {asked.outage_s:g} s within {asked.recover_s:g} s: "
        f"{advice.units_recover} units, so a reserve of {advice.reserve}."
    )


def _hours(found: PoolAhead) -> Iterator[str]:
    yield ""
    yield f"{'hour':<17}{'arrivals':>9}{'80 %':>14}{'waiting':>9}{'80 %':>14}{'wait':>10}"
    for hour in found.hours:
        yield (
            f"{moment(hour.starts_at):%Y-%m-%d %H:%M} {hour.arrivals:>9.1f}"
            f"{f'{hour.arrivals_low:.0f} to {hour.arrivals_high:.0f}':>14}{hour.depth:>9.1f}"
            f"{f'{hour.depth_low:.0f} to {hour.depth_high:.0f}':>14}{_span(hour.wait_s):>10}"
        )


def _groups(by: str, found: PoolAhead, slugs: dict[str, str]) -> Iterator[str]:
    yield ""
    yield f"{by:<24}{'tenant':<16}{'seen':>8}{'next day':>10}{'80 %':>16}  run p10 / p50 / p90"
    for one in found.groups:
        runs = one.runs
        took = f"{runs.p10_s:.1f} / {runs.p50_s:.1f} / {runs.p90_s:.1f} s" if runs else "none yet"
        span = f"{one.arrivals_low:.0f} to {one.arrivals_high:.0f}"
        tenant = slugs.get(one.tenant, "")
        yield f"{one.key or '-':<24}{tenant:<16}{one.seen:>8}{one.arrivals:>10.1f}{span:>16}  {took}"
    if found.groups_left_out:
        yield f"{found.groups_left_out} more groups of fewer jobs are left out."


def _budgets(budgets: Sequence[BudgetAhead], left_out: int) -> Iterator[str]:
    for one in budgets:
        if one.exhausted_at is not None:
            row = one.row
            yield (
                f"Budget of {row.tenant} ({row.scope} {row.dimension}, {row.window}): "
                f"{one.per_hour} an hour use it up at {one.exhausted_at:%Y-%m-%d %H:%M} UTC."
            )
    if left_out:
        yield f"{left_out} more budgets, used up later or not at all, are left out."


def _honesty(span: str, rows: Sequence[Honesty], slugs: dict[str, str]) -> Iterator[str]:
    yield ""
    if not rows:
        yield f"ETAs of the last {span}: none came due."
        return
    yield f"{f'ETAs of the last {span}':<40}{'jobs':>7}{'error':>10}{'bias':>10}{'80 %':>7}{'naive':>10}"
    for one in rows:
        name = f"{slugs.get(one.tenant, '')}/{one.workflow}" if one.workflow else "all"
        yield (
            f"{name:<40}{one.score.count:>7}{one.score.mean_error_s:>10.1f}"
            f"{one.score.bias_s:>+10.1f}{one.score.hit_rate:>7.0%}{one.naive_error_s:>10.1f}"
        )


def _units(units: int | None) -> str:
    return "no number of" if units is None else str(units)


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "over a week"
    return f"{seconds:.0f} s" if seconds < 7200 else f"{seconds / 3600:.1f} h"

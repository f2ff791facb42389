"""`/metrics`, for Prometheus: what the pools' last snapshots and the scores of their ETAs say, as gauges.

They are of pools and executors, never of one tenant, though a private executor's name may tell whose it is. An
operator who is signed in may read them, and who sends the token that the setting `METRICS_TOKEN` holds
(`Authorization: Bearer`, as a Prometheus server does); without that setting operators alone. A pool
whose governor is silent keeps its last values and tells their age. Scores are kept for ten minutes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

import redis
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduling import snapshot
from scheduling.cockpit.viewers import viewer_of_user
from scheduling.events import valkey_client
from scheduling.models import Pool
from scheduling.selectors.circuits import CLOSED
from scheduling.selectors.foresight.honesty import Honesty, eta_honesty
from scheduling.snapshot import ExecutorRow, Header

WHO_MAY = (
    "Sign in as an operator, or send the token of TELEMACHUS_METRICS_TOKEN: "
    "Authorization: Bearer <token>.\n"
)
OPERATORS_ONLY = "These figures are of all tenants: ask an operator.\n"

_POOL: tuple[tuple[str, str, Callable[[Header], float | None]], ...] = (
    ("pool_budget_units", "Units that may be in use at a time: the dial.", lambda one: one.budget),
    ("pool_reserve_units", "Units kept for classes that may use them.", lambda one: one.reserve),
    ("pool_in_use_units", "Units that live jobs hold.", lambda one: one.in_use),
    ("jobs_startable", "Jobs that stand in the order.", lambda one: one.startable),
    (
        "jobs_kept_out",
        "Jobs that wait outside the order: held, paused, deferred, blocked.",
        lambda one: one.total - one.startable,
    ),
    ("jobs_running", "Live attempts.", lambda one: len(one.running)),
    (
        "jobs_overdue",
        "Live attempts past their estimated finish.",
        lambda one: sum(each.overdue for each in one.running),
    ),
    (
        "tenants_waiting",
        "Tenants with a job that waits.",
        lambda one: sum(each.waiting > 0 for each in one.tenants),
    ),
    (
        "clear_seconds",
        "Seconds until all that waits or runs should be done; none where nothing tells.",
        lambda one: None if one.clear_at is None else max(0.0, one.clear_at - one.at),
    ),
    ("leader_epoch", "Epoch of the governor that leads.", lambda one: one.epoch),
    ("policy_version", "Number of the policy in force.", lambda one: one.policy),
)
_EXECUTOR: tuple[tuple[str, str, Callable[[ExecutorRow], float]], ...] = (
    ("executor_slots", "Jobs that the executor can run now.", lambda one: one.slots),
    ("executor_slots_configured", "Jobs that it may run.", lambda one: one.configured_slots),
    ("executor_in_use", "Jobs that it runs.", lambda one: one.in_use),
    (
        "executor_available",
        "1 if it may be given work: on, not draining, not down, its circuit closed.",
        lambda one: (
            one.enabled and not one.draining and one.health != "down" and one.circuit == CLOSED
        ),
    ),
)
_ETA: tuple[tuple[str, str, Callable[[Honesty], float]], ...] = (
    (
        "eta_scored",
        "Estimates that came due in a day, the newest 20,000 at most.",
        lambda one: one.score.count,
    ),
    ("eta_error_seconds", "Their mean absolute error.", lambda one: one.score.mean_error_s),
    ("eta_bias_seconds", "Their mean error; positive: too late.", lambda one: one.score.bias_s),
    ("eta_hit_ratio", "Part within its 80 % range.", lambda one: one.score.hit_rate),
    (
        "eta_naive_error_seconds",
        "Mean absolute error of waiting x average / capacity.",
        lambda one: one.naive_error_s,
    ),
)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer one scrape; 503 when the broker or the database is away."""
    try:
        return _refusal(request) or _figures()
    except (redis.RedisError, DatabaseError, OSError) as error:
        return _plain(f"No figures now: no answer ({type(error).__name__}).\n", 503)


def _figures() -> HttpResponse:
    registry = CollectorRegistry()
    registry.register(_Scrape(timezone.now()))
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _refusal(request: HttpRequest) -> HttpResponse | None:
    token = settings.METRICS_TOKEN
    if token and constant_time_compare(request.headers.get("Authorization", ""), f"Bearer {token}"):
        return None
    viewer = viewer_of_user(request.user)
    if viewer is None:
        answer = _plain(WHO_MAY, 401)
        answer["WWW-Authenticate"] = 'Bearer realm="telemachus"'
        return answer
    return None if viewer.tenants is None else _plain(OPERATORS_ONLY, 403)


def _plain(text: str, status: int) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="text/plain")


class _Scrape(Collector):
    """The families of one scrape, read at its time."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a registry that asks would read everything twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Read the snapshots and scores, and yield the families."""
        headers = snapshot.read_headers(valkey_client())
        yield _family(
            "snapshot_age_seconds",
            "Age of the pool's last snapshot; it grows when no governor leads.",
            ["pool"],
            [([one.slug], self._now.timestamp() - one.at) for one in headers],
        )
        for name, meaning, value in _POOL:
            yield _family(name, meaning, ["pool"], [([one.slug], value(one)) for one in headers])
        for name, meaning, of_executor in _EXECUTOR:
            rows = [
                ([one.slug, each.slug], of_executor(each))
                for one in headers
                for each in one.executors
            ]
            yield _family(name, meaning, ["pool", "executor"], rows)
        scores = list(self._scores())
        for name, meaning, of_score in _ETA:
            yield _family(
                name, meaning, ["pool"], [([slug], of_score(one)) for slug, one in scores]
            )

    def _scores(self) -> Iterator[tuple[str, Honesty]]:
        for pool in Pool.objects.order_by("slug"):
            found = eta_honesty(pool, "day", self._now)
            if found:
                yield pool.slug, found[0]


def _family(
    name: str, meaning: str, labels: list[str], rows: Sequence[tuple[list[str], float | None]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"telemachus_{name}", meaning, labels=labels)
    for values, value in rows:
        if value is not None:
            family.add_metric(values, float(value))
    return family

"""All kinds of work on top of the scene of `tests.e2e.seed`; prints the reviewers' keys as JSON.

python -m tests.e2e.seed_everything MISBEHAVING_ADDRESS PLAYING_ADDRESS

Model `m` runs on a server that misbehaves, `m2` stands in for it; `scripted` plays flows.
"""

import json
import os
import sys
from datetime import UTC, datetime
from decimal import Decimal

import django
from django.utils.module_loading import import_string as found

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")
BY = {"acting_user": "test", "reason": "a test's scene"}
START = datetime(2020, 1, 1, tzinfo=UTC)
POLICY = {
    "classes": [{"name": "urgent"}, {"name": "normal"}],
    "retry": {"max_attempts": 100, "base_s": 0.2, "cap_s": 2, "budget_floor": 20},
    "breaker": {"threshold": 5, "cooldown_s": 2},
    "preemption": {"enabled": True, "min_run_s": 0.3, "most_times": 3},
    "fallback": [{"model": "m", "candidates": [{"model": "m2"}]}],
}
"""For `System.seed`: short waits, so that a run sees many of them."""


def main(misbehaving: str, playing: str) -> dict[str, str]:
    pool = found("scheduling.models.Pool").objects.get()
    rate = found("billing.core.pricing.Rate")
    publish = found("billing.services.prices.cost_rule_publish")
    free = [rate(meter="output", amount=Decimal(0))]
    publish(offer=("stormy", "m"), starts_at=START, rates=free, **BY)
    publish(offer=("calm", "m2"), starts_at=START, rates=free, **BY)
    reviewing = {"kind": "human", "provider": "human", "job_kinds": ["review"], "slots": 4}
    chat = {"kind": "local-model", "job_kinds": ["chat"], "slots": 4, "endpoint": misbehaving}
    flow = {"kind": "local-model", "provider": "local", "job_kinds": ["flow", "chat"], "slots": 4}
    _executor(pool, "people", reviewing)
    _executor(pool, "stormy", {**chat, "provider": "stormy", "models_offered": ["m"]})
    _executor(pool, "calm", {**chat, "provider": "calm", "models_offered": ["m2"]})
    _executor(pool, "player", {**flow, "endpoint": playing, "models_offered": ["scripted"]})
    return {space.tenant.slug: _reviewer(space) for space in _spaces()}


def _executor(pool: object, slug: str, values: dict[str, object]) -> None:
    settings = found("scheduling.controls.pools.ExecutorSettings")(**values)
    found("scheduling.controls.pools.executor_put")(slug=slug, pool=pool, settings=settings, **BY)


def _spaces() -> list:
    return list(found("tenants.models.Workspace").objects.select_related("tenant"))


def _reviewer(space: object) -> str:
    _, key = found("tenants.keys.key_issue")(workspace=space, name="eyes", role="reviewer", **BY)
    return str(key)


if __name__ == "__main__":
    django.setup()
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))

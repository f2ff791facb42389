"""The process's copy of the order: one load for all, and what happens when the broker is away."""

import asyncio
import logging
import threading
import uuid
from dataclasses import replace

import msgspec
import pytest
import redis

from scheduling import snapshot
from scheduling.cockpit.board import Viewer
from scheduling.cockpit.feed import Feed
from scheduling.cockpit.readmodel import Depths, ReadModel
from scheduling.events import valkey_client
from scheduling.models import Job, JobEvent, Pool, Workflow
from tenants.models import Tenant
from tests.scheduling.cockpit.boards import IDS, POOL, job_id, mixed
from tests.scheduling.cockpit.conftest import People, Publish

OPERATOR = Viewer(user_id=1, name="olga", tenants=None, costs=None)
ACME = Viewer(user_id=2, name="vera", tenants=frozenset({IDS["acme"]}))


async def test_fifty_sockets_share_one_load(publish: Publish) -> None:
    publish(mixed(3), 1)
    asked = []
    all_ask = threading.Event()

    def client() -> redis.Redis:
        asked.append(1)
        assert all_ask.wait(10)
        return valkey_client()

    model = ReadModel(client)
    askers = [asyncio.create_task(model.refresh()) for _ in range(50)]
    await asyncio.sleep(0.1)
    all_ask.set()
    await asyncio.gather(*askers)
    assert len(asked) == 1
    assert model.has(model.boards()[0].header.pool, 1, 1)


def test_a_version_at_hand_is_not_read_again(publish: Publish) -> None:
    publish(mixed(3), 1)
    model = ReadModel(valkey_client)
    model.load()
    first = model.board()
    model.load()
    assert model.board() is first
    publish(mixed(4), 2)
    model.load()
    assert model.board("0-cockpit") is not first
    assert model.board("no-such-pool") is None


def test_rows_that_are_at_hand_are_not_read_again_when_some_are_gone(publish: Publish) -> None:
    story = mixed(3)
    publish(story, 1)
    model = ReadModel(valkey_client)
    model.load()
    client = valkey_client()
    client.delete(f"{snapshot.PREFIX}{POOL}:1:1")
    gone = replace(story, waiting=story.waiting[1:]).header(2)
    fresh = msgspec.structs.replace(gone, rows_seq=1, gone=uuid.UUID(job_id(0)).bytes)
    snapshot.write_header(client, fresh)
    model.load()
    board = model.board()
    assert board is not None
    assert board.version == (1, 2)
    assert [bytes(row) for row in board.rows["job"]] == [
        uuid.UUID(job_id(number)).bytes for number in (1, 2)
    ]


def test_a_broker_that_is_away_leaves_the_last_copy(
    publish: Publish, caplog: pytest.LogCaptureFixture
) -> None:
    publish(mixed(3), 1)
    clients = [valkey_client(), redis.Redis(host="127.0.0.1", port=1)]
    model = ReadModel(lambda: clients.pop(0))
    model.load()
    with caplog.at_level(logging.WARNING):
        model.load()
    assert model.board() is not None
    assert "the last one stays" in caplog.text


def test_depth_is_sampled_every_ten_seconds_and_counts_the_viewers_jobs() -> None:
    depths = Depths()
    for at, count in [(1000.0, 4), (1005.0, 6), (1010.0, 8)]:
        depths.add(mixed(count, at=at).board())
    assert depths.of(OPERATOR) == ((1000, 4), (1010, 8))
    assert depths.of(ACME) == ((1000, 2), (1010, 4))


def make_job(tenant: Tenant) -> Job:
    pool, _ = Pool.objects.get_or_create(slug="main", defaults={"name": "Main", "budget": 4})
    workflow, _ = Workflow.objects.get_or_create(tenant=tenant, slug="w", defaults={"pool": pool})
    return Job.objects.create(
        tenant=tenant, workspace=tenant.workspaces.get(), workflow=workflow, pool=pool,
        kind="chat", job_class="normal", state="queued", reason="in_order", max_attempts=1,
        payload={"secret": "beta-marker"}, input_tokens=1, output_tokens=1, submitted_by="x",
    )  # fmt: skip


def test_events_reach_only_those_who_see_the_tenant_and_late_ones_are_found(people: People) -> None:
    jobs = {slug: make_job(tenant) for slug, tenant in people.tenants.items()}
    feed = Feed()
    data = {"executor": "gpu-a", "error": "beta-marker"}
    for number, slug in ((60, "acme"), (70, "beta"), (40, "acme")):
        JobEvent.objects.create(
            id=number, job=jobs[slug], tenant=people.tenants[slug], event="placed", data=data
        )
        feed.load()
    seen = Viewer(user_id=2, name="vera", tenants=frozenset({people.ids["acme"]}))
    rows = feed.rows(seen)
    assert [row[0] for row in rows] == [60, 40]
    assert "beta" not in str(rows)
    assert rows[0][6] == "on gpu-a"
    assert [row[0] for row in feed.rows(OPERATOR)] == [70, 60, 40]


def test_what_is_committed_just_after_a_read_is_read_without_another_tick(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Feed, "_load_events", lambda feed: reads.append(len(reads)))
    monkeypatch.setattr(Feed, "_load_spend", lambda *_: None)
    reads: list[int] = []
    feed = Feed()

    async def ask() -> int:
        await feed.refresh()
        return len(reads)

    async def asked_again_and_by_many() -> list[int]:
        first = await ask()
        return [first, *await asyncio.gather(*(ask() for _ in range(20)))]

    assert asyncio.run(asked_again_and_by_many()) == [1] + [2] * 20


def test_spend_is_text_and_only_for_those_who_see_costs(people: People) -> None:
    feed = Feed()
    feed.load()
    assert feed.spend(OPERATOR) == {"spend": "0.00", "wasted": "0.00"}
    assert feed.spend(ACME) == {}

"""The order snapshot: written and read in slices, never a mix of two versions."""

import msgspec
import numpy as np
import pytest
import redis
from django.conf import settings

from scheduling import snapshot
from scheduling.events import valkey_client

POOL = "p-1"


@pytest.fixture
def client() -> redis.Redis:
    client = valkey_client()
    client.flushdb()
    return client


def header(seq: int, total: int, epoch: int = 1) -> snapshot.Header:
    return snapshot.Header(
        pool=POOL, slug="main", epoch=epoch, seq=seq, at=1.5, policy=1, control=2, budget=8,
        reserve=1, in_use=3, startable=total, total=total, clear_at=None, clear_low=None,
        clear_high=None, tenants=[], workspaces=[], workflows=[("w", "build")], classes=["normal"],
        reasons=["in_order"], executors=[], running=[], eta_mean_error_s=None, eta_hit_rate=0.5,
        rows_seq=seq,
    )  # fmt: skip


def rows(count: int) -> snapshot.Rows:
    return snapshot.pack(
        [
            (bytes([n]) * 16, n, 0, 0, 0, 0, True, False, n + 1, n, 1.0, 2.0, 3.0, 2.5, np.nan)
            for n in range(count)
        ]
    )


def costs(read: snapshot.Rows | None) -> list[int]:
    assert read is not None
    return [int(cost) for cost in read["cost"]]


def test_what_is_written_is_read(client: redis.Redis) -> None:
    snapshot.write(client, header(1, 3), rows(3))
    read = snapshot.read_header(client, POOL)
    assert read == header(1, 3)
    found = snapshot.read_rows(client, header(1, 3))
    assert found is not None
    assert found.tobytes() == rows(3).tobytes()
    assert found["job"][2].tobytes() == b"\2" * 16
    assert client.smembers(snapshot.POOLS_KEY) == {POOL.encode()}


@pytest.mark.parametrize(
    ("offset", "count", "wanted"),
    [
        (0, None, [1, 2, 3, 4, 5]),
        (0, 2, [1, 2]),
        (3, 2, [4, 5]),
        (4, 9, [5]),
        (5, 3, []),
        (9, None, []),
        (0, 0, []),
        (2, 0, []),
    ],
)
def test_a_slice_is_read_alone(
    client: redis.Redis, offset: int, count: int | None, wanted: list[int]
) -> None:
    snapshot.write(client, header(1, 5), rows(5))
    assert costs(snapshot.read_rows(client, header(1, 5), offset, count)) == wanted


def test_rows_that_are_gone_by_a_later_header_are_left_out(client: redis.Redis) -> None:
    snapshot.write_rows(client, header(1, 5), rows(5))
    later = msgspec.structs.replace(header(2, 3), rows_seq=1, gone=b"\1" * 16 + b"\3" * 16)
    snapshot.write_header(client, later)
    read = snapshot.read_header(client, POOL)
    assert read is not None
    assert costs(snapshot.read_rows(client, read)) == [1, 3, 5]
    assert costs(snapshot.read_rows(client, read, 1, 1)) == [3]
    assert costs(snapshot.read_rows(client, read, 1, 9)) == [3, 5]
    assert costs(snapshot.read_rows(client, read, 3, 1)) == []


def test_an_empty_order_is_no_missing_one(client: redis.Redis) -> None:
    snapshot.write(client, header(1, 0), rows(0))
    assert costs(snapshot.read_rows(client, header(1, 0))) == []


def test_there_is_no_header_before_the_first(client: redis.Redis) -> None:
    assert snapshot.read_header(client, POOL) is None


def test_an_older_version_is_read_as_it_was_or_not_at_all(client: redis.Redis) -> None:
    snapshot.write(client, header(1, 2), rows(2))
    old = snapshot.read_header(client, POOL)
    snapshot.write(client, header(2, 5), rows(5))
    assert old is not None
    assert costs(snapshot.read_rows(client, old)) == [1, 2]
    client.delete(f"{snapshot.PREFIX}{POOL}:1:1")
    assert snapshot.read_rows(client, old) is None


def test_a_new_leaders_first_version_is_not_the_old_ones(client: redis.Redis) -> None:
    snapshot.write(client, header(1, 2, epoch=1), rows(2))
    snapshot.write(client, header(1, 4, epoch=2), rows(4))
    assert len(costs(snapshot.read_rows(client, header(1, 2, epoch=1)))) == 2
    assert len(costs(snapshot.read_rows(client, header(1, 4, epoch=2)))) == 4


def test_rows_expire_and_the_header_stays(client: redis.Redis) -> None:
    snapshot.write(client, header(1, 2), rows(2))
    left = client.ttl(f"{snapshot.PREFIX}{POOL}:1:1")
    assert 0 < int(left) <= snapshot.ROWS_LIVE_S
    assert client.ttl(snapshot.PREFIX + POOL) == -1


def test_a_client_that_decodes_is_refused(client: redis.Redis) -> None:
    snapshot.write(client, header(1, 2), rows(2))
    wrong = redis.Redis.from_url(settings.REDIS_URL, decode_responses=True, encoding="latin-1")
    with pytest.raises(TypeError, match="decode_responses"):
        snapshot.read_header(wrong, POOL)
    wrong.close()

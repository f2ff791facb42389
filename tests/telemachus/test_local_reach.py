"""Servers that live elsewhere are asked for before anything is started."""

import os

import pytest

from telemachus.local.errors import LocalServiceError
from telemachus.local.ports import free_port
from telemachus.local.reach import require_reachable


def test_servers_that_answer_are_let_through():
    require_reachable({name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL")})


@pytest.mark.parametrize(
    ("variable", "scheme"), [("DATABASE_URL", "postgres"), ("REDIS_URL", "redis")]
)
def test_a_server_that_is_away_is_named_without_its_password(variable, scheme):
    port = free_port()
    with pytest.raises(LocalServiceError, match=f"127.0.0.1:{port} .{variable}.") as caught:
        require_reachable({variable: f"{scheme}://me:hush-hush@127.0.0.1:{port}/0"})
    assert "hush-hush" not in str(caught.value)

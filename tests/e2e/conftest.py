"""A running system shared by the flows of a session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from telemachus.local.ports import free_port
from tests.e2e.system import System


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A system of this test's own; it must stop cleanly."""
    one = System(home=tmp_path / "home", port=free_port())
    try:
        one.start()
        yield one
    finally:
        code = one.stop()
    assert code == 0, one.tail()

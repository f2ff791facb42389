"""A running system for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.system import System, system_of


@pytest.fixture
def system(tmp_path: Path, ready_home: Path) -> Iterator[System]:
    """A system of this test's own; it must stop cleanly."""
    one = system_of(ready_home, tmp_path)
    try:
        one.start()
        yield one
    finally:
        code = one.stop()
    assert code == 0, one.tail()

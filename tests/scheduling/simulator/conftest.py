"""Fixtures of the simulator's tests."""

from pathlib import Path

import pytest

from tests.scheduling.simulator.scenario_files import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder to write scenario files into."""
    return Folder(tmp_path)

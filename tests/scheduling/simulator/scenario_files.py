"""Scenario files for tests: written to a folder, read, and the faults that they are refused for."""

from pathlib import Path
from textwrap import dedent

import pytest

from scheduling.simulator.errors import InvalidScenario
from scheduling.simulator.reading import read
from scheduling.simulator.scenario import Scenario

POOLS = "pools: [{name: default, budget: 3}]\n"


class Folder:
    """A folder of scenario files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, text: str, name: str = "s.yaml") -> Path:
        """Write a file, its common indent taken off."""
        path = self.path / name
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def read(self, text: str, name: str = "s.yaml", **options) -> Scenario:
        """Read a scenario, with one pool unless it names its own."""
        text = dedent(text)
        has_pools = "pools" in text
        return read(self.write(text if has_pools else POOLS + text, name), **options)

    def faults(self, text: str, name: str = "s.yaml", **options) -> list[str]:
        """Return what a scenario is refused for, a line each."""
        with pytest.raises(InvalidScenario) as caught:
            read(self.write(text, name), **options)
        return [str(error) for error in caught.value.errors]

"""What is wrong with a scenario: each fault by file, line and key path, all told at once."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioError:
    """One fault: the file's name, its line (0: of no line), the key's path, and a sentence."""

    file: str
    line: int
    path: str
    sentence: str

    def __str__(self) -> str:
        """Return the fault on one line, as compilers write it."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (where, self.path, self.sentence) if part)


class InvalidScenario(Exception):
    """The file is no valid scenario; `errors` names every fault."""

    def __init__(self, errors: Iterable[ScenarioError]) -> None:
        """Keep the faults; the message lists them a line each."""
        self.errors = tuple(errors)
        super().__init__("\n".join(map(str, self.errors)))


def refusal(file: str, sentence: str, line: int = 0, path: str = "") -> InvalidScenario:
    """Return the exception of a single fault."""
    return InvalidScenario([ScenarioError(file=file, line=line, path=path, sentence=sentence)])

"""When a job should be done, told as it is let in, and scored against what came true."""

from typing import Any

from scheduling.core.policy.state import PoolState
from scheduling.core.types import Placement
from scheduling.simulator.runs import Run


class Foresight:
    """Estimates, and how good they were."""

    def __init__(self) -> None:
        self.count = 0

    def came(self, run: Run) -> None:
        pass

    def left(self, run: Run) -> None:
        pass

    def placed(self, run: Run, placement: Placement) -> None:
        pass

    def learn(self, run: Run, seconds: float) -> None:
        pass

    def weigh(self, tenant: str, weight: int) -> None:
        pass

    def finished(self, run: Run, now: float) -> None:
        pass

    def told(self, run: Run, state: PoolState, now: float) -> tuple[int | None, float | None]:
        return None, None

    def score(self) -> dict[str, Any]:
        return {}

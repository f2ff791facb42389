"""A leader that a test drives turn by turn, with the broker replaced by a list."""

from collections.abc import Iterable
from typing import Any

import pytest

from scheduling.executors.contract import Outcome
from scheduling.governor import lease, loop, publish
from scheduling.governor.loop import Leader
from scheduling.governor.messages import Sent
from scheduling.models import Attempt, Job
from scheduling.tasks.claim import Claimed
from tests.scheduling.factories import claim, done, settle


class Ticks:
    """Stands in for the boards' ticks."""

    def tick(self, pool: str, epoch: int, seq: int) -> None:
        """Tell nobody."""

    def close(self) -> None:
        """Nothing to stop."""


class Desk:
    """The leader, what it sent, and a worker that claims and settles by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, worker: int) -> None:
        self.worker = worker
        self.sent: list[Sent] = []
        self.control: list[str] = []
        monkeypatch.setattr(loop, "Messages", lambda: self)
        monkeypatch.setattr(publish, "TickPublisher", Ticks)
        monkeypatch.setattr(Leader, "_control_task", lambda _self, name: self.control.append(name))
        self._leader: Leader | None = None

    @property
    def leader(self) -> Leader:
        """The leader; the first use begins it."""
        if self._leader is None:
            epoch = lease.take("test")
            assert epoch is not None
            self._leader = Leader(epoch)
        return self._leader

    def state(self, pool: Any) -> Any:
        return self.leader.book.states[str(pool.id)]

    def send(self, batch: Iterable[Sent]) -> None:
        """Keep what the leader sends: it has this in the place of its messages."""
        self.sent.extend(batch)

    def turn(self) -> list[str]:
        """Turn until nothing moves; returns the ids of the jobs that were sent, in order."""
        before = len(self.sent)
        while self.leader.turn():
            pass
        jobs = dict(
            Attempt.objects.filter(id__in=[one.attempt for one in self.sent[before:]]).values_list(
                "id", "job_id"
            )
        )
        placed = {str(attempt): str(job) for attempt, job in jobs.items()}
        return [placed[one.attempt] for one in self.sent[before:]]

    def claim(self) -> list[Claimed]:
        return claim(self.worker)

    def finish(self, outcome: Outcome | None = None, jobs: Iterable[Job] | None = None) -> int:
        """Claim what was dispatched and settle it; or settle these jobs' claimed attempts."""
        self.claim()
        live = Attempt.objects.filter(state__in=["running", "stopping"])
        if jobs is not None:
            live = live.filter(job__in=list(jobs))
        return settle(list(live), outcome or done()).settled

    def restart(self, *, give_up: bool = True) -> None:
        """End this leadership and begin another, whose memory is built from the rows."""
        if give_up:
            self.leader.close()
        else:
            lease.give_up(self.leader.epoch)
        self.stop()
        self._leader = None
        assert self.leader.epoch

    def stop(self) -> None:
        if self._leader is not None:
            self._leader.publisher.close()

"""The leader's loop: take up changes, decide, dispatch, tell; and what is due by the clock.

    wake (nudge, else 1 s) -> changed rows -> cycle -> one statement -> messages -> read model

A change that comes alone is taken up at once; where several came together, the next wait a few
milliseconds for their neighbours, so that a burst becomes one batch. While the workers have plenty
before them changes gather longer, for the fixed cost of a batch (statements, messages, settling) is
then what the work would wait for. Whatever goes wrong with the database ends this leadership: the memory is thrown away and built anew from
the rows by whoever leads next, often this very process.
"""

import gc
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event

import redis
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

from scheduling.core.policy.cycle import cycle
from scheduling.core.types import Reason
from scheduling.events import nudge_channel, valkey_client
from scheduling.governor import lease
from scheduling.governor.book import Book
from scheduling.governor.boot import book_load
from scheduling.governor.config import config_load
from scheduling.governor.dispatch import dispatch, remember
from scheduling.governor.messages import Messages, Sent
from scheduling.governor.pickup import changes_since
from scheduling.governor.publish import Publisher
from scheduling.governor.room import room_make
from scheduling.governor.rows import FAILED, AttemptRow, JobRow
from scheduling.governor.sweep import (
    admission_is_due,
    expiry_is_due,
    fall_back,
    settle_lost,
    unclaimed,
    wake,
)
from scheduling.selectors.circuits import CLOSED
from scheduling.services.trials import trial_is_due

log = logging.getLogger(__name__)

IDLE_S = 1.0
GATHER_S = 0.004
GATHER_BUSY_S = 0.05
"""How long changes gather while most of what may be dispatched ahead is still before the workers."""
PROBE_EVERY_S = 5.0
SWEEP_BUDGETS_EVERY_S = 30.0
HOUSEKEEPING_EVERY_S = 600.0


def now_s() -> float:
    """Return the time as the core takes it."""
    return datetime.now(UTC).timestamp()


@dataclass(slots=True)
class Clock:
    """Runs each duty when its time has come (seconds apart); one may say that it has changed something."""

    duties: list[tuple[float, Callable[[], bool | None]]]
    _due: dict[int, float] = field(default_factory=dict)

    def run(self) -> bool:
        """Run what is due; returns whether any of it has changed something."""
        changed = False
        for index, (every_s, duty) in enumerate(self.duties):
            if time.monotonic() >= self._due.get(index, 0.0):
                self._due[index] = time.monotonic() + every_s
                changed |= bool(duty())
        return changed

    def next_in(self) -> float:
        """Return the seconds until the next duty, at most `IDLE_S`."""
        clock = time.monotonic()
        return min(IDLE_S, *(max(0.0, due - clock) for due in self._due.values()))


class Leader:
    """One leadership: its memory, its duties, its turns."""

    def __init__(self, epoch: int) -> None:
        """Build the memory from the rows."""
        self.epoch = epoch
        self.book = self._load()
        gc.freeze()  # what was loaded stays: the collector need not walk it again and again
        self.publisher = Publisher(epoch, settings.SNAPSHOT_EVERY_S)
        self.messages = Messages()
        self._began = time.monotonic()
        self._control = self.book.config.control
        self._burst = False
        self._clock = Clock(
            [
                (1.0, self._renew),
                (0.1, self._wake),
                (0.25, self._settle_lost),
                (0.25, self._make_room),
                (0.5, self._resend),
                (0.5, self._fall_back),
                (1.0, self._reconfigure),
                (1.0, self._readmit),
                (1.0, self._expire),
                (1.0, self._try_policies),
                (SWEEP_BUDGETS_EVERY_S, self._sweep_budgets),
                (PROBE_EVERY_S, self._probe),
                (HOUSEKEEPING_EVERY_S, self._keep_house),
            ]
        )

    def _load(self) -> Book:
        with lease.kept(self.epoch):
            return book_load(self.epoch, now_s())

    def turn(self) -> bool:
        """Do one turn; returns whether anything changed.

        What is due by the clock comes last: what somebody nudged us for does not wait for it.
        """
        moved = self._take_up()
        moved |= self._place()
        if moved:
            self.publisher.touch()
        self.publisher.offer(self.book, now_s())
        return moved | self._clock.run()

    def wait_s(self) -> float:
        """Return how long the loop may sleep when nobody nudges it."""
        return max(0.0, min(self._clock.next_in(), self.book.opens_at() - now_s()))

    def gather_s(self) -> float:
        """Return how long to let changes gather before the next turn."""
        if self.book.has_plenty():
            return GATHER_BUSY_S
        return GATHER_S if self._burst else 0.0

    def close(self) -> None:
        """Store what is left and give the lease up, so that another governor leads at once."""
        remember(self.book, self.epoch)
        lease.give_up(self.epoch)

    def _take_up(self) -> bool:
        changes, before = changes_since(self.book.seen), self.book
        if changes.control != self._control or now_s() >= before.config.changes_at:
            self._reconfigure()
        if not all(self.book.knows(row) for row, _ in changes.pairs):
            self._reconfigure(all_anew=True)
        self._burst = len(changes.pairs) > 1
        if self.book is not before:
            return True  # loaded anew, and so from rows newer than these
        for row, attempt in changes.pairs:
            self.book.apply(row, attempt)
        self.book.seen = changes.seen
        if self._may_move_circuits(changes.pairs):
            self._reconfigure()
        if any(row.reason == Reason.FALLBACK for row, _ in changes.pairs):
            self._readmit()
        return bool(changes.pairs)

    def _may_move_circuits(self, pairs: Sequence[tuple[JobRow, AttemptRow | None]]) -> bool:
        """Tell whether an attempt has failed, or has ended where a circuit is not closed."""
        rows = self.book.config.executor_rows
        troubled = {name for name, row in rows.items() if row.circuit != CLOSED}
        ended = (one for _, one in pairs if one is not None and one.ended_at is not None)
        return any(one.state in FAILED or one.executor in troubled for one in ended)

    def _place(self) -> bool:
        placed = False
        for pool, state in self.book.states.items():
            placements = cycle(state, now_s())
            if placements:
                sent = dispatch(self.book, placements, pool=pool, epoch=self.epoch)
                self._tell(sent)
                placed |= bool(sent)
        remember(self.book, self.epoch)
        return placed

    def _tell(self, sent: list[Sent]) -> None:
        try:
            self.messages.send(sent)
        except BrokerError as error:
            log.warning("broker away (%s): %d attempts will be sent again", error, len(sent))

    def _renew(self) -> None:
        if not lease.renew(self.epoch):
            log.warning("the lease had run out and nobody took it; going on")
            self._began = time.monotonic()  # what was away may have kept workers from renewing, too

    def _wake(self) -> bool:
        woken = wake(self.epoch)
        if woken.circuits:
            self._reconfigure()
        return bool(woken.jobs or woken.circuits)

    def _settle_lost(self) -> bool:
        # The leases may have run out while the database was away: give the living time to renew.
        if time.monotonic() - self._began < settings.WORKER_LEASE_S:
            return False
        lost = settle_lost(self.epoch)
        if lost:
            log.warning("%d attempts of lost workers were settled", lost)
        return lost > 0

    def _make_room(self) -> bool:
        asked = room_make(self.book, self.epoch, now_s())
        if asked:
            log.info("%d attempts were asked to make room", asked)
        return asked > 0

    def _resend(self) -> None:
        again = unclaimed(self.book, self.epoch)
        if again:
            log.info("%d attempts were not claimed in time and are sent again", len(again))
            self._tell(again)

    def _reconfigure(self, *, all_anew: bool = False) -> bool:
        known = None if all_anew else self.book.config
        config = config_load(self.book.run_s(), known, now=now_s())
        self._control = config.control
        if config == self.book.config:
            return False
        if config.policy != self.book.config.policy:
            log.info("policy %d is in force", config.policy.number)
            remember(self.book, self.epoch)
            before, self.book = self.book, self._load()
            self.book.served, self.book.checked = before.served, before.checked
            self.book.runs, self.book.moves = before.runs, before.moves
            self.book.first_etas = {
                job: eta for job, eta in before.first_etas.items() if job in self.book.rows
            }
        else:
            self.book.reconfigure(config)
        self.publisher.touch(lever=True)
        return True

    def _fall_back(self) -> bool:
        moved = fall_back(self.book, self.epoch)
        if moved:
            log.info("%d jobs look for another model: all circuits of theirs are open", moved)
        return moved > 0

    def _readmit(self) -> None:
        if admission_is_due():
            self._control_task("scheduling.jobs_readmit")

    def _expire(self) -> None:
        if expiry_is_due():
            self._control_task("scheduling.jobs_expire")

    def _try_policies(self) -> None:
        if trial_is_due(datetime.now(UTC)):
            self._control_task("scheduling.trials_run")

    def _sweep_budgets(self) -> None:
        self._control_task("scheduling.admission_renew")

    def _probe(self) -> None:
        self._control_task("scheduling.executors_probe")

    def _keep_house(self) -> None:
        self._control_task("scheduling.housekeeping")

    def _control_task(self, name: str) -> None:
        try:
            current_app.send_task(name, queue="control", retry=False, expires=30)
        except (BrokerError, redis.RedisError, OSError) as error:
            log.warning("broker away (%s): %s not sent", type(error).__name__, name)


class Nudges:
    """Waits for nudges over Valkey; while it is away, sleeps instead."""

    def __init__(self) -> None:
        """Subscribe at the first wait."""
        self._subscription: redis.client.PubSub | None = None

    def wait(self, seconds: float) -> None:
        """Return at a nudge, or after `seconds`; those that came before the call count as one."""
        try:
            if self._subscription is None:
                client = valkey_client()
                self._subscription = client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
                self._subscription.subscribe(nudge_channel())
            self._wait(self._subscription, seconds)
        except (redis.RedisError, OSError):
            self._subscription = None
            time.sleep(min(seconds, 0.2))

    def _wait(self, subscription: redis.client.PubSub, seconds: float) -> None:
        end, nudged = time.monotonic() + seconds, False
        # Looked for here and not behind the nudge below, where the work would wait for it.
        while subscription.get_message(timeout=0) is not None:
            nudged = True
        while not nudged and (left := end - time.monotonic()) > 0:
            nudged = subscription.get_message(timeout=left) is not None


def lead(epoch: int, stopping: Event) -> None:
    """Lead until told to stop; raise `LeadershipLost` or a database error when it ends."""
    leader, nudges = Leader(epoch), Nudges()
    log.info("leading in epoch %d: %d jobs", epoch, len(leader.book.rows))
    try:
        while not stopping.is_set():
            if leader.turn():
                time.sleep(leader.gather_s())
            else:
                nudges.wait(leader.wait_s())
        leader.close()
    finally:
        leader.publisher.close()
        leader.messages.close()

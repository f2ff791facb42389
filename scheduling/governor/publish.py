"""Publishing the read model without making the dispatching wait.

Two kinds of versions. A full pass orders, forecasts and explains everything; for more than a few
jobs it runs in a forked child, which sees the leader's memory as it stood at the fork and shares
its pages, so that nothing is copied and nothing waits. The child writes the rows and hands the
header back over a pipe. In between, and at once when something moves, the leader itself publishes
the last header freshened: what runs now, and which of the rows are gone.

Only this process numbers and publishes headers, so versions never overtake each other. The child
touches no database connection: it ends by `os._exit`, and opens a Valkey connection of its own.
"""

import gc
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import repeat

import msgspec
import redis

from scheduling.events import TickPublisher, valkey_client, valkey_client_new
from scheduling.governor.book import Book, FirstEta
from scheduling.governor.moves import Gone, Moves
from scheduling.governor.view import NewEta, Stamp, build, freshened
from scheduling.snapshot import Header, write_header, write_rows

log = logging.getLogger(__name__)

SHORTEST_S = 0.2
"""The shortest time between two versions."""
INLINE_MOST = 200
"""Up to so many waiting jobs a full pass is made by the leader itself: a fork would cost more."""
PAUSE_FACTOR = 4.0
"""After a full pass that took n seconds (of processor time, in a child), the next begins n times
this later, unless a lever moved."""
GONE_MOST = 4_000
"""With more rows gone than this, freshened headers would grow too large: wait for the full pass."""
LEARN_MOST = 5_000
"""So many first estimates are entered in a turn: 100,000 at once would hold up dispatch."""
CHILD_MOST_S = 60.0
CHILD_NICE = 5
"""A picture of the backlog may be a little late; the work that it shows comes first."""


class Made(msgspec.Struct, frozen=True):
    """What a child hands back of one pool."""

    header: Header
    first_etas: list[NewEta]


@dataclass(slots=True)
class _Child:
    """A full pass under way in a process of its own."""

    pid: int
    pipe: int
    began: float
    before: dict[str, Moves]
    said: bytearray = field(default_factory=bytearray)


class Publisher:
    """Turns the leader's memory into published versions."""

    def __init__(self, epoch: int, every_s: float) -> None:
        """Publish for the leader of `epoch`, a full pass at the latest every `every_s` seconds."""
        self._epoch = epoch
        self._every_s = every_s
        self._seq = 0
        self._bases: dict[str, Header] = {}
        self._child: _Child | None = None
        self._moved = self._lever = True
        self._full_at = self._last_at = 0.0
        self._full_took = 0.0
        self._new_etas: deque[tuple[float, NewEta]] = deque()
        self._ticks = TickPublisher()

    def touch(self, *, lever: bool = False) -> None:
        """Say that something moved; a lever makes the next full pass begin at once."""
        self._moved = True
        self._lever |= lever

    def offer(self, book: Book, now: float) -> None:
        """Do what is due: take in a finished pass, begin one, publish a freshened version."""
        clock = time.monotonic()
        self._learn(book)
        if self._child is not None:
            self._listen(book, now)
        if self._child is None and self._full_is_due(clock):
            self._lever = False
            if sum(len(state.order) for state in book.states.values()) <= INLINE_MOST:
                self.publish_full(book, now)
            else:
                self._fork(book, now)
        if self._moved and clock - self._last_at >= SHORTEST_S:
            self._freshen(book, now)

    def publish_full(self, book: Book, now: float) -> None:
        """Make a full pass here and now, and publish it."""
        began = time.monotonic()
        self._seq += 1
        book.moves = {}
        made = _made(book, list(book.states), self._epoch, self._seq, now)
        self._take(made, book, time.monotonic() - began)
        self._publish(self._bases.values())

    def close(self) -> None:
        """Stop; a pass under way is given up."""
        if self._child is not None:
            self._end(self._child)
        self._ticks.close()

    def _full_is_due(self, clock: float) -> bool:
        if self._lever:
            return clock - self._full_at >= SHORTEST_S
        pause = max(SHORTEST_S, self._full_took * PAUSE_FACTOR)
        return clock - self._full_at >= (pause if self._moved else self._every_s)

    def _fork(self, book: Book, now: float) -> None:
        """Begin a full pass in a child."""
        self._seq += 1
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            _child_main(book, self._epoch, self._seq, now, writing)
        os.close(writing)
        os.set_blocking(reading, False)
        self._child = _Child(pid, reading, time.monotonic(), book.moves)
        book.moves = {}

    def _listen(self, book: Book, now: float) -> None:
        """Read what the child says; when it has ended, publish what it made."""
        child = self._child
        if child is None:
            return
        try:
            while chunk := os.read(child.pipe, 1 << 20):
                child.said += chunk
        except BlockingIOError:
            if time.monotonic() - child.began > CHILD_MOST_S:
                log.error("a full pass took more than %d s, given up", CHILD_MOST_S)  # noqa: TRY400
                self._drop(child, book)
            return
        try:
            made = msgspec.msgpack.decode(bytes(child.said), type=list[Made])
        except msgspec.MsgspecError:
            log.error("a full pass failed; its process says why above")  # noqa: TRY400
            self._drop(child, book)
            return
        self._take(made, book, self._end(child))
        self._freshen(book, now)

    def _drop(self, child: _Child, book: Book) -> None:
        """Forget a pass; the old base goes on, with all that has moved since it was made."""
        self._end(child)
        self._full_at = time.monotonic()
        for pool, before in child.before.items():
            later = book.moves_of(pool)
            book.moves[pool] = Moves(before.arrived | later.arrived, before.followed_by(later))

    def _end(self, child: _Child) -> float:
        """Be rid of a child, whether it has ended or not; return its processor seconds."""
        self._child = None
        os.close(child.pipe)
        os.kill(child.pid, signal.SIGKILL)
        used = os.wait4(child.pid, 0)[2]
        return used.ru_utime + used.ru_stime

    def _take(self, made: Iterable[Made], book: Book, took: float) -> None:
        for one in made:
            self._bases[one.header.pool] = one.header
            self._new_etas.extend(zip(repeat(one.header.at), one.first_etas))
        self._learn(book)
        self._full_at, self._full_took = time.monotonic(), took

    def _learn(self, book: Book) -> None:
        """Enter some of the first estimates; those of the jobs in front were made first."""
        for _ in range(min(LEARN_MOST, len(self._new_etas))):
            at, (job_id, finish, low, high) = self._new_etas.popleft()
            if job_id in book.rows:  # else it has ended meanwhile
                book.first_etas.setdefault(job_id, FirstEta(at, finish, low, high))

    def _freshen(self, book: Book, now: float) -> None:
        """Publish the last full headers with what has moved since."""
        fresh = []
        for pool, base in self._bases.items():
            gone = self._gone(book, pool)
            if len(gone) > GONE_MOST:
                continue
            self._seq += 1
            try:
                fresh.append(freshened(base, book, seq=self._seq, now=now, gone=gone))
            except KeyError:  # it names something new: only a full pass can say it
                self._lever = True
        self._publish(fresh)

    def _gone(self, book: Book, pool: str) -> dict[str, Gone]:
        moves = book.moves_of(pool)
        before = self._child.before.get(pool) if self._child is not None else None
        return moves.gone if before is None else before.followed_by(moves)

    def _publish(self, headers: Iterable[Header]) -> None:
        self._moved, self._last_at = False, time.monotonic()
        for header in headers:
            try:
                write_header(valkey_client(), header)
                self._ticks.tick(header.pool, header.epoch, header.seq)
            except redis.RedisError as error:
                self._moved = True
                log.warning("read model not published: %s", type(error).__name__)


def _made(book: Book, pools: Iterable[str], epoch: int, seq: int, now: float) -> list[Made]:
    """Make a full pass of the pools and store their rows."""
    made = []
    client = valkey_client_new()
    for pool in pools:
        try:
            built = build(book, Stamp(pool=pool, epoch=epoch, seq=seq, now=now))
            write_rows(client, built.header, built.rows)
            made.append(Made(built.header, built.first_etas))
        except redis.RedisError as error:
            log.warning("rows of the read model not stored: %s", type(error).__name__)
        except Exception:  # a fault of one picture hides no other and never ends the governor
            log.exception("read model of pool %s could not be built", pool)
    client.close()
    return made


def _child_main(book: Book, epoch: int, seq: int, now: float, pipe: int) -> None:
    """Be the child: make the pass, say it, end without touching what the parent shares."""
    code = 1
    try:
        os.nice(CHILD_NICE)
        gc.disable()  # this process is over before anything could be worth collecting
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        said = msgspec.msgpack.encode(_made(book, list(book.states), epoch, seq, now))
        with os.fdopen(pipe, "wb") as out:
            out.write(said)
        code = 0
    except Exception:  # whatever it was, this process must end here
        log.exception("the read model could not be made")
    finally:
        os._exit(code)

"""The sending side of a socket: ticks only set a flag, and the newest version wins.

A tick wakes the loop; it brings the process's copy up to date (one load for all sockets), sends
each subscription whose last frame was acknowledged one difference, and sends nothing more for
250 ms, in which further ticks gather; a change after a quiet time goes out at once. What has not
moved since a subscription was last looked at is not looked at again, and a view that several
sockets want is made once.

A heartbeat every two seconds carries the newest number (of the first subscription's pool) and, for
each subscription, the number last sent, so that a lost frame shows; it also looks for versions
whose tick was lost. A browser that acknowledges nothing for 30 s is dropped.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable

from scheduling.cockpit import messages
from scheduling.cockpit.board import Board, Viewer
from scheduling.cockpit.feed import Feed
from scheduling.cockpit.limits import SUBSCRIPTIONS_MOST
from scheduling.cockpit.parts import parts
from scheduling.cockpit.readmodel import ReadModel
from scheduling.cockpit.subscriptions import Subscription
from scheduling.cockpit.topics import TOPICS, Ask, Source
from scheduling.cockpit.window import Frame, View

GATHER_S = 0.25
HEARTBEAT_S = 2.0
UNACKNOWLEDGED_S = 30.0
SILENT = 4408


class Sender:
    """Keeps one browser's subscriptions in step with the newest version."""

    def __init__(
        self,
        *,
        viewer: Viewer,
        model: ReadModel,
        feed: Feed,
        send: Callable[[Frame], Awaitable[None]],
        drop: Callable[[int], Awaitable[None]],
    ) -> None:
        """Begin without subscriptions."""
        self._viewer = viewer
        self._model = model
        self._feed = feed
        self._send = send
        self._drop = drop
        self._subs: dict[str, Subscription] = {}
        self._wake = asyncio.Event()
        self._ticked: dict[str, tuple[int, int]] = {}
        self._stopped = False
        self._events: asyncio.Task[None] | None = None
        self._events_due = False

    def tick(self, pool: str, epoch: int, seq: int) -> None:
        """Note that a version is there."""
        self._ticked[pool] = (epoch, seq)
        self._wake.set()

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        self._subs.clear()

    async def follow(self, message: messages.Message) -> None:
        """Do what the browser asks; raise `messages.Refused` when it cannot be done."""
        match message:
            case messages.Sub():
                await self._subscribe(message.id, messages.ask_of(message))
            case messages.Unsub():
                self._subs.pop(message.id, None)
            case messages.Ack():
                self._subscription(message.id).acknowledge(message.seq)
                self._wake.set()
            case messages.Resync():
                subscription = self._subscription(message.id)
                subscription.forget()
                await self._push(subscription)

    def _subscription(self, sub_id: str) -> Subscription:
        try:
            return self._subs[sub_id]
        except KeyError:
            raise messages.Refused(
                "unknown_sub", "There is no such subscription; send a sub first.", sub_id
            ) from None

    async def _subscribe(self, sub_id: str, ask: Ask) -> None:
        if sub_id not in self._subs and len(self._subs) >= SUBSCRIPTIONS_MOST:
            text = f"A socket has at most {SUBSCRIPTIONS_MOST} subscriptions."
            raise messages.Refused("too_many_subs", text, sub_id)
        if self._model.board() is None:
            await self._model.refresh()
        if not self._tenant_exists(ask):
            raise messages.Refused("unknown_tenant", "There is no such tenant.", sub_id)
        self._subs[sub_id] = Subscription(id=sub_id, ask=ask)
        await self._push(self._subs[sub_id])
        if ask.topic == "events":
            self._look_for_events()

    def _tenant_exists(self, ask: Ask) -> bool:
        """Say whether the viewer sees this tenant; a hidden one reads like an unknown one."""
        board = self._model.board(ask.pool)
        if ask.tenant == "*" or board is None:
            return ask.tenant == "*"
        return any(ask.tenant in (row.id, row.slug) for row in board.tenants_of(self._viewer))

    async def run(self) -> None:
        """Send until cancelled."""
        beat_at = time.monotonic()
        while not self._stopped:
            await self._wait(beat_at - time.monotonic())
            self._wake.clear()
            for pool, version in list(self._ticked.items()):
                await self._model.catch_up(pool, *version)
            if self._ticked:
                self._look_for_events()
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + HEARTBEAT_S
                await self._beat()
            told = [await self._push(subscription) for subscription in list(self._subs.values())]
            if any(told):
                await asyncio.sleep(GATHER_S)

    async def _wait(self, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), max(0.0, timeout_s))
        except TimeoutError:
            return

    async def _beat(self) -> None:
        await self._model.refresh()
        self._look_for_events()
        now = time.monotonic()
        if any(now - (sub.waits_since or now) > UNACKNOWLEDGED_S for sub in self._subs.values()):
            await self._drop(SILENT)
            return
        pools = [sub.ask.pool for sub in self._subs.values()]
        board = self._model.board(pools[0] if pools else "")
        sent = {sub.id: sub.sent.seq for sub in self._subs.values() if sub.sent is not None}
        await self._send(
            {
                "t": "hb",
                "now": round(time.time(), 1),
                "seq": board.header.seq if board else None,
                "at": board.header.at if board else None,
                "subs": sent,
            }
        )

    async def _push(self, subscription: Subscription) -> bool:
        """Send a subscription what it lacks, if it has taken in what it was sent before.

        Returns whether anything was sent.
        """
        board = self._model.board(subscription.ask.pool)
        if board is None or not subscription.ready:
            return False
        state = self._state(board, subscription.ask)
        if subscription.seen == state:
            return False
        subscription.seen = state
        skipped = self._skipped(subscription)
        if skipped > 0:
            await self._send({"t": "gap", "id": subscription.id, "n": skipped})
        frame = subscription.frame(self._view(board, subscription.ask), time.monotonic())
        if frame is None or subscription.sent is None:
            return False
        for part in parts(frame, subscription.sent):
            await self._send(part)
        return True

    def _state(self, board: Board, ask: Ask) -> Hashable:
        """Name the state of what a topic is made from: another name, and it may look different."""
        fed = self._feed.version if ask.topic in ("events", "summary") else 0
        return board.header.pool, board.version, fed

    def _view(self, board: Board, ask: Ask) -> View:
        """Make a view, or take the one that was made for another socket."""
        key = ask, self._viewer.scope, self._state(board, ask)
        known = board.views.get(key)
        if known is not None:
            return known
        view = TOPICS[ask.topic](self._source(board, ask), self._viewer, ask)
        return board.keep_view(key, view)

    def _source(self, board: Board, ask: Ask) -> Source:
        """Gather what the topic needs, and no more."""
        if ask.topic == "depth":
            return Source(board=board, depth=self._model.depth(board, self._viewer))
        if ask.topic == "events":
            rows = self._feed.rows(self._viewer)
            return Source(board=board, events=rows, events_seq=self._feed.seq)
        if ask.topic == "summary":
            return Source(board=board, spend=self._feed.spend(self._viewer))
        return Source(board=board)

    def _look_for_events(self) -> None:
        """Have the feed read the database meanwhile; the order does not wait for it."""
        wanted = any(sub.ask.topic in ("events", "summary") for sub in self._subs.values())
        self._events_due |= wanted
        if self._events_due and (self._events is None or self._events.done()):
            self._events = asyncio.create_task(self._read_events())

    async def _read_events(self) -> None:
        while self._events_due:
            self._events_due = False
            before = self._feed.version
            await self._feed.refresh()
            if self._feed.version != before:
                self._wake.set()

    def _skipped(self, subscription: Subscription) -> int:
        """Return how many events came since the last frame beyond those that the window holds."""
        sent = subscription.sent
        if subscription.ask.topic != "events" or sent is None or not sent.rows:
            return 0
        newest: int = sent.rows[0][0]
        came = [row for row in self._feed.rows(self._viewer) if row[0] > newest]
        return len(came) - subscription.ask.n

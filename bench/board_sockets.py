"""Boards without a page: WebSocket clients that subscribe, acknowledge and scroll as a board does.

They run on one event loop in a thread of their own. Each keeps the window it was told, so that a
frame that does not fit ends the bench, and notes the size of each frame and how long a window that
it asked for took to be there whole.
"""

import asyncio
import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autobahn.asyncio.websocket import WebSocketClientFactory, WebSocketClientProtocol

SESSION_COOKIE = "sessionid"
WINDOW = 80
SCROLL_EVERY_S = 3.0
TOPICS: Mapping[str, dict[str, Any]] = {
    "h": {"topic": "shares"},
    "s": {"topic": "summary"},
    "x": {"topic": "executors"},
    "l": {"topic": "lanes", "span": 604_800},
    "d": {"topic": "depth"},
    "e": {"topic": "events", "n": 60},
    "q": {"topic": "order", "n": WINDOW},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """Keys of signed-in sessions, a person each."""

    operators: list[str]
    viewers: list[str]


@dataclass(slots=True, kw_only=True)
class Heard:
    """What all boards heard: sizes in bytes by topic and kind, window times in seconds, faults."""

    sizes: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    windows: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def clear(self) -> None:
        """Forget what was heard before the measuring."""
        self.sizes.clear()
        self.windows.clear()


class Board(WebSocketClientProtocol):
    """One board; it holds the order's rows as ids and scrolls from time to time."""

    heard: Heard
    held: list[str]
    first = 0
    total = 0
    asked_at: float | None = None
    leaving = False

    def onOpen(self) -> None:
        """Subscribe to what a board shows."""
        self.held = []
        for name, ask in TOPICS.items():
            self._say(t="sub", id=name, **ask)
        self.scrolling = asyncio.ensure_future(self._scroll())

    def onMessage(self, payload: bytes, isBinary: bool) -> None:  # noqa: FBT001 - autobahn's
        """Take a frame in, then acknowledge it."""
        del isBinary
        if self.leaving:
            return
        frame = json.loads(payload)
        kind, name = frame["t"], frame.get("id", "")
        topic = TOPICS[name]["topic"] if name else ""
        self.heard.sizes[f"{kind} {topic}".strip()].append(len(payload))
        if kind == "err":
            self.heard.faults.append(frame["text"])
        if kind not in ("snap", "d"):
            return
        if name == "q":
            self._order(frame)
        if not frame.get("more"):
            self._say(t="ack", id=name, seq=frame["seq"])

    def onClose(self, wasClean: bool, code: int, reason: str) -> None:  # noqa: FBT001
        """A close that nobody asked for is a fault."""
        del wasClean
        if self.leaving:
            return
        self.heard.faults.append(f"closed: {code} {reason}")

    def leave(self) -> None:
        """Close for good."""
        self.leaving = True
        self.scrolling.cancel()
        self.sendClose()

    def _say(self, **message: Any) -> None:  # noqa: ANN401 - a message's fields
        self.sendMessage(json.dumps(message).encode())  # type: ignore[no-untyped-call] # autobahn

    def _order(self, frame: dict[str, Any]) -> None:
        if frame["t"] == "snap":
            self.held, self.first = [row[0] for row in frame["rows"]], frame["off"]
        else:
            self._difference(frame)
        self.total = frame.get("total", self.total)
        if self.asked_at is not None and len(self.held) >= min(WINDOW, self.total - self.first):
            self.heard.windows.append(time.perf_counter() - self.asked_at)
            self.asked_at = None

    def _difference(self, frame: dict[str, Any]) -> None:
        moved = dict(frame.get("mv", ()))
        gone = {*frame.get("rm", ()), *moved}
        left = len(self.held)
        self.held = [row for row in self.held if row not in gone]
        if left - len(self.held) != len(gone):
            self.heard.faults.append("a frame takes out a row that is not there")
        coming = [(place, row[0]) for place, row in frame.get("ins", ())]
        for place, row in sorted([*coming, *((place, row) for row, place in moved.items())]):
            self.held.insert(place, row)

    async def _scroll(self) -> None:
        """Ask for another window every few seconds."""
        while True:
            await asyncio.sleep(SCROLL_EVERY_S * (0.5 + random.random()))  # noqa: S311 - no secret
            if self.asked_at is None and self.total:
                off = random.randrange(max(1, self.total - WINDOW))  # noqa: S311 - no secret
                self.asked_at = time.perf_counter()
                self._say(t="sub", id="q", **TOPICS["q"], off=off)


class Boards:
    """Some boards on a loop in a thread, for the length of a `with` block."""

    def __init__(self, port: int, sessions: Sequence[str]) -> None:
        """Get ready: a board for each session key."""
        self.heard = Heard()
        self._port = port
        self._sessions = sessions
        self._boards: list[Board] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="boards")

    def __enter__(self) -> "Boards":
        self._thread.start()
        for session in self._sessions:
            asyncio.run_coroutine_threadsafe(self._open(session), self._loop).result(20)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _open(self, session: str) -> None:
        host = f"127.0.0.1:{self._port}"
        factory = WebSocketClientFactory(  # type: ignore[no-untyped-call] # autobahn
            f"ws://{host}/ws/live/",
            origin=f"http://{host}",
            headers={"Cookie": f"{SESSION_COOKIE}={session}"},
            loop=self._loop,
        )
        factory.protocol = Board
        _, board = await self._loop.create_connection(factory, "127.0.0.1", self._port)
        board.heard = self.heard
        self._boards.append(board)

    async def _leave(self) -> None:
        for board in self._boards:
            board.leave()
        await asyncio.sleep(0.5)

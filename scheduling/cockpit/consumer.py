"""The live socket `/ws/live/`: who may hold one, what it may ask, and when it is closed.

Close codes: 4400 bad address, 4401 not signed in, 4403 nothing to see here or rights changed, 4408
no acknowledgement, 4413 frame too long, 4429 too much asked, 1013 try again later. Session and
memberships are read again every four seconds; a change closes the socket. Nothing here touches the
database except that check, which runs in the feed's own threads.
"""

import asyncio
import time
from typing import Any

import redis
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError

from scheduling.cockpit import messages
from scheduling.cockpit.board import Viewer
from scheduling.cockpit.limits import FRAME_LENGTH_MOST, FrameRate
from scheduling.cockpit.live import feed, read_model, sockets
from scheduling.cockpit.sender import Sender
from scheduling.cockpit.viewers import viewer_of_session
from scheduling.events import LIVE_GROUP

RECHECK_S = 4.0
RECHECK_FAULTS_MOST = 5
REGROUP_S = 6 * 3600.0

BAD_ADDRESS, SIGNED_OUT, NO_RIGHTS, SILENT, TOO_LONG, TOO_MUCH = 4400, 4401, 4403, 4408, 4413, 4429
TRY_LATER = 1013


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc] # channels has no types
    """One browser's socket."""

    viewer: Viewer
    session_key: str
    sender: Sender
    rate: FrameRate
    tasks: tuple[asyncio.Task[None], ...] = ()
    counted = False

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Hand a message to its method, without the look at database connections that the base
        class takes for each one in the single thread that all consumers share.
        """
        handler = getattr(self, message["type"].replace(".", "_"), None)
        if handler is not None and not message["type"].startswith("_"):
            await handler(message)

    async def connect(self) -> None:
        """Accept a signed-in person; others are accepted and closed, so that they learn why."""
        code = await self._refusal()
        await self.accept()
        if code is not None:
            await self.close(code)
            return
        self.rate = FrameRate(time.monotonic())
        self.sender = Sender(
            viewer=self.viewer, model=read_model, feed=feed, send=self._send, drop=self._drop
        )
        self.tasks = (
            asyncio.create_task(self.sender.run()),
            asyncio.create_task(self._keep_checking()),
        )

    async def _refusal(self) -> int | None:
        """Return the close code for one who may not have a socket, None for one who may."""
        if self.scope.get("query_string"):
            return BAD_ADDRESS
        self.session_key = self.scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
        try:
            viewer = await self._look_up()
            if viewer is None:
                return SIGNED_OUT
            if viewer.tenants == frozenset():
                return NO_RIGHTS
            await self.channel_layer.group_add(LIVE_GROUP, self.channel_name)
        except (DatabaseError, redis.RedisError, OSError):
            return TRY_LATER
        self.viewer = viewer
        self.counted = sockets.take(viewer.user_id)
        return None if self.counted else TOO_MUCH

    async def _look_up(self) -> Viewer | None:
        key = self.session_key
        return await feed.run(lambda: viewer_of_session(key)) if key else None

    async def disconnect(self, code: int) -> None:
        """Stop the tasks and give the place back."""
        for task in self.tasks:
            task.cancel()
        if self.counted:
            self.counted = False
            sockets.give_back(self.viewer.user_id)
        await self.channel_layer.group_discard(LIVE_GROUP, self.channel_name)

    async def websocket_disconnect(self, message: dict[str, Any]) -> None:
        """End without the base class's own group work, which needs a broker that answers."""
        try:
            await super().websocket_disconnect(message)
        except (redis.RedisError, OSError):
            raise asyncio.CancelledError from None

    async def live_tick(self, message: dict[str, Any]) -> None:
        """A new version is there: only set the flag."""
        if self.tasks:
            self.sender.tick(message["pool"], message["epoch"], message["seq"])

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Follow one message of the browser, within the limits."""
        if not self.tasks:
            return
        if not self.rate.allows(time.monotonic()):
            await self._drop(TOO_MUCH)
        elif text_data is None or len(text_data) > FRAME_LENGTH_MOST:
            await self._drop(TOO_LONG)
        else:
            await self._follow(text_data)

    async def _follow(self, text: str) -> None:
        try:
            await self.sender.follow(messages.read(text))
        except messages.Refused as refusal:
            await self._send(
                {
                    "t": "err",
                    "id": refusal.sub_id,
                    "code": refusal.code,
                    "text": refusal.sentence,
                }
            )

    async def _keep_checking(self) -> None:
        """Close the socket when its session ends or its rights change; renew the group at times."""
        faults, grouped_at = 0, time.monotonic()
        while True:
            await asyncio.sleep(RECHECK_S)
            try:
                now = await self._look_up()
                faults = 0
                if now != self.viewer:
                    await self._drop(SIGNED_OUT if now is None else NO_RIGHTS)
                    return
                if time.monotonic() - grouped_at > REGROUP_S:
                    grouped_at = time.monotonic()
                    await self.channel_layer.group_add(LIVE_GROUP, self.channel_name)
            except (DatabaseError, redis.RedisError, OSError):
                faults += 1
            if faults > RECHECK_FAULTS_MOST:
                await self._drop(TRY_LATER)
                return

    async def _send(self, frame: dict[str, Any]) -> None:
        await self.send(text_data=messages.write(frame))

    async def _drop(self, code: int) -> None:
        """Close, and follow nothing more."""
        self.sender.stop()
        await self.close(code)

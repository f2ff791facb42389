"""How much a socket may ask: frames a second, sockets a user.

The counts are those of one web process; a process is what a flood would hurt.
"""

from collections import Counter

FRAME_LENGTH_MOST = 4096
FRAMES_A_SECOND = 20
SUBSCRIPTIONS_MOST = 8
SOCKETS_A_USER = 10


class FrameRate:
    """A bucket that holds one second's frames and fills steadily; `now` is in seconds."""

    def __init__(self, now: float) -> None:
        """Begin full."""
        self._left = float(FRAMES_A_SECOND)
        self._at = now

    def allows(self, now: float) -> bool:
        """Take one frame out; False when there is none."""
        gained = (now - self._at) * FRAMES_A_SECOND
        self._left = min(float(FRAMES_A_SECOND), self._left + gained)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class SocketCount:
    """The open sockets of each user."""

    def __init__(self) -> None:
        """Begin with none."""
        self._open: Counter[int] = Counter()

    def take(self, user_id: int) -> bool:
        """Count one more socket; False, and not counted, when the user has all it may have."""
        if self._open[user_id] >= SOCKETS_A_USER:
            return False
        self._open[user_id] += 1
        return True

    def give_back(self, user_id: int) -> None:
        """Count one socket less."""
        self._open[user_id] -= 1
        if self._open[user_id] <= 0:
            del self._open[user_id]

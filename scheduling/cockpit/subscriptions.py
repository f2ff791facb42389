"""A subscription: what was asked, what was last sent, and whether that has been taken in.

At most one frame of a subscription is on its way. While it is not acknowledged nothing further is
made for it, so a slow or stopped reader costs one remembered view and no queue; when it comes back
it gets one difference to the newest version: latest wins.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from scheduling.cockpit.topics import Ask
from scheduling.cockpit.window import Frame, View, calm, delta, snap


@dataclass(slots=True, kw_only=True)
class Subscription:
    """`sent` is the view that the browser holds, None when it needs a whole one.

    `seen` names the state of the sources that it was last compared with.
    """

    id: str
    ask: Ask
    sent: View | None = None
    seen: Hashable = None
    waits_since: float | None = None

    @property
    def ready(self) -> bool:
        """Say whether the last frame has been acknowledged."""
        return self.waits_since is None

    def frame(self, view: View, now: float) -> Frame | None:
        """Return what to send for the newest view, None when the browser has it already."""
        if self._fits(view):
            frame = self._difference(view)
        else:
            self.sent = view
            frame = snap(self.id, view)
        if frame is not None:
            self.waits_since = now
        return frame

    def _fits(self, view: View) -> bool:
        """Say whether a difference can be told: same leader, same way of counting places."""
        sent = self.sent
        return (
            sent is not None
            and sent.epoch == view.epoch
            and sent.off == view.off
            and (sent.places is None) == (view.places is None)
        )

    def _difference(self, view: View) -> Frame | None:
        if self.sent is None:
            return None
        shown = calm(self.sent, view)
        frame = delta(self.id, self.sent, shown)
        if frame is not None:
            self.sent = shown
        return frame

    def acknowledge(self, seq: int) -> None:
        """Take note that the browser has taken in the frame with this number."""
        if self.sent is not None and self.sent.seq == seq:
            self.waits_since = None

    def forget(self) -> None:
        """Send the whole view next time."""
        self.sent = self.seen = None
        self.waits_since = None

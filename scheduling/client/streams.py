"""An answer that comes piece by piece: its slot is held until the last piece, or until it is closed.

The usage is read from the pieces; the last one that tells any counts. A stream that is dropped
without being closed gives its slot back when it is collected.
"""

import contextlib
from typing import Any, Self

from scheduling.client.outcomes import told_usage
from scheduling.client.slot import Slot, in_thread


def is_stream(answer: object) -> bool:
    """Tell whether an answer comes piece by piece."""
    kind = type(answer)  # where Python itself looks: the answer's own attributes may raise
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


class _Held:
    """What both streams share: the answer itself, its slot, and the usage that it has told."""

    def __init__(self, answer: Any, slot: Slot) -> None:  # noqa: ANN401 (a client's own)
        self._answer = answer
        self._slot = slot
        self._usage: object = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (a client's own)
        return getattr(self._answer, name)

    def __del__(self) -> None:
        slot = self.__dict__.get("_slot")
        if slot is not None:
            slot.abandon(self._told())

    def _note(self, piece: object) -> None:
        self._usage = told_usage(piece) or self._usage

    def _told(self) -> dict[str, object]:
        return {"usage": self._usage}


class HeldStream(_Held):
    """An iterator of a client, with its slot."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:  # noqa: ANN401 (a client's own)
        try:
            piece = next(self._answer)
        except StopIteration:
            self._slot.complete(self._told())
            raise
        except BaseException as error:
            self._slot.fail(error)
            raise
        self._note(piece)
        return piece

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it before its end; what it has told so far is booked, else what was expected."""
        try:
            with contextlib.suppress(AttributeError):
                self._answer.close()
        finally:
            self._slot.complete(self._told())


class HeldAsyncStream(_Held):
    """An asynchronous iterator of a client, with its slot."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 (a client's own)
        try:
            piece = await anext(self._answer)
        except StopAsyncIteration:
            await in_thread(self._slot.complete, self._told())
            raise
        except BaseException as error:
            await in_thread(self._slot.fail, error)
            raise
        self._note(piece)
        return piece

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End it before its end; what it has told so far is booked, else what was expected."""
        try:
            end = getattr(self._answer, "close", None) or getattr(self._answer, "aclose", None)
            if end is not None:
                await end()
        finally:
            await in_thread(self._slot.complete, self._told())

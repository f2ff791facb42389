"""What a browser may say on the socket, read strictly: an unknown word is an answer, not a guess.

{"t":"sub","id":"q","topic":"order","pool":"","tenant":"*","filter":"","off":0,"n":80}
{"t":"unsub","id":"q"}   {"t":"ack","id":"q","seq":7}   {"t":"resync","id":"q","have":5}
"""

from typing import Annotated, TypeAlias

import msgspec

from scheduling.cockpit import filters
from scheduling.cockpit.topics import TOPICS, WINDOW_MOST, Ask
from scheduling.cockpit.window import Frame

SubId: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=16)]


class Refused(Exception):
    """The message cannot be followed; `sub_id` is the subscription it is about, if any."""

    def __init__(self, code: str, sentence: str, sub_id: str = "") -> None:
        """Keep what goes into the error frame."""
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.sub_id = sub_id


class Sub(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="t", tag="sub"):
    """Begin, or change, a subscription."""

    id: SubId
    topic: Annotated[str, msgspec.Meta(max_length=40)]
    pool: Annotated[str, msgspec.Meta(max_length=63)] = ""
    tenant: Annotated[str, msgspec.Meta(min_length=1, max_length=63)] = "*"
    filter: Annotated[str, msgspec.Meta(max_length=200)] = ""
    off: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0
    n: Annotated[int, msgspec.Meta(ge=1, le=WINDOW_MOST)] = 80
    span: Annotated[int, msgspec.Meta(ge=10, le=604_800)] = 5400


class Unsub(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="t", tag="unsub"):
    """End a subscription."""

    id: SubId


class Ack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="t", tag="ack"):
    """The frame with this number has been taken in; the next may come."""

    id: SubId
    seq: int


class Resync(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="t", tag="resync"):
    """A frame is missing: send the whole window."""

    id: SubId
    have: int = 0


Message: TypeAlias = Sub | Unsub | Ack | Resync

_decoder = msgspec.json.Decoder(Message)


def read(text: str) -> Message:
    """Return the message of a frame; raise `Refused` with what is wrong."""
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError as error:
        raise Refused("bad_message", f"The message is not as it should be: {error}") from error
    except msgspec.DecodeError as error:
        raise Refused("bad_json", f"The frame is not JSON: {error}") from error


def write(frame: Frame) -> str:
    """Return the text of an outgoing frame."""
    return msgspec.json.encode(frame).decode()


def ask_of(message: Sub) -> Ask:
    """Return what a subscription wants; raise `Refused` for an unknown topic or a bad filter."""
    if message.topic not in TOPICS:
        known = ", ".join(TOPICS)
        raise Refused("unknown_topic", f"There is no such topic. Topics: {known}.", message.id)
    try:
        words = filters.parse(message.filter)
    except filters.BadFilter as error:
        raise Refused("bad_filter", str(error), message.id) from error
    return Ask(
        topic=message.topic,
        pool=message.pool,
        tenant=message.tenant,
        words=words,
        off=message.off,
        n=message.n,
        span_s=message.span,
    )

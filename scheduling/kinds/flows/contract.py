"""What a kind of flow is: pure rules from a state to the next request, and on from its answer.

A flow is work in rounds. Its state is a JSON object and all that a round knows of the ones before:
it is stored with the settlement of each round, so that a flow goes on from its last finished round
whatever dies in between. A round is a step of the job: one chat completion, then the tool calls
that its answer asks for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scheduling.kinds.contract import Fault, Payload

State = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call that an answer asks for. `key` names it for ever: the step's serial, its place there."""

    key: str
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a call is answered with. `child`: the job whose end will bring the answer instead."""

    call: Call
    text: str = ""
    child: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A flow after an answer: its state, and the calls to run. Without calls it is over."""

    state: State
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far a flow may go: rounds, tool calls, and seconds from its first round."""

    steps: int
    tool_calls: int
    seconds: float


class FlowKind(Protocol):
    """A kind of flow; it has no state of its own, asks no clock and touches nothing."""

    @property
    def name(self) -> str: ...

    def faults(self, payload: Payload) -> list[Fault]:
        """Every bad field of a payload."""

    def bounds(self, payload: Payload) -> Bounds:
        """The ceilings of a payload that has no faults."""

    def begin(self, now: float) -> State:
        """The state before the first round; `now` is epoch seconds."""

    def request(self, payload: Payload, state: State) -> Payload:
        """The next round's completion, as a payload of kind `chat`."""

    def answered(self, state: State, answer: Mapping[str, Any], *, serial: int) -> Turn:
        """What follows from the answer (a result of kind `chat`) to a request of this state.

        `serial` is a number that no other step of the job has or will have.
        """

    def replied(self, state: State, replies: Sequence[Reply]) -> State:
        """The state with the replies to all the calls of its last answer."""

    def waits_for(self, state: State) -> tuple[str, ...]:
        """The ids of the jobs whose ends the state still lacks."""

    def told(self, state: State, ends: Mapping[str, str]) -> State:
        """The state with what came of those jobs, by id."""

    def result(self, state: State, *, finished: bool) -> dict[str, Any]:
        """What the flow has so far, as a job's result."""


def ceiling_hit(state: State, bounds: Bounds, *, now: float, more_calls: int = 0) -> str:
    """Say which ceiling keeps the flow from another round, or ""; `more_calls` are to be run now."""
    if state["rounds"] >= bounds.steps:
        return f"It has had the {bounds.steps} rounds that it may have, and is not finished."
    if state["tool_calls"] + more_calls > bounds.tool_calls:
        return f"It asks for more than the {bounds.tool_calls} tool calls that it may make."
    if now - state["began_at"] >= bounds.seconds:
        return (
            f"It has run for the {bounds.seconds:g} seconds that it may take, and is not finished."
        )
    return ""

"""Kind `flow`: work in rounds, each a chat completion and the tool calls that it asks for.

To an executor a round is a chat: its payload is made from the flow's and its state by the kind of
flow (`scheduling.kinds.flows`), so a flow runs where a chat can. What is estimated is its first
round; the later ones grow with what has been said.
"""

from dataclasses import dataclass
from typing import Any

from scheduling.kinds import checks
from scheduling.kinds.chat import Chat
from scheduling.kinds.contract import Estimate, ModelAnswer, ModelRequest, Payload, RunsBy
from scheduling.kinds.flows.contract import FlowKind
from scheduling.kinds.flows.registry import FLOWS

_CHAT = Chat()
KIND = "flow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The kind itself; it has no state."""

    name: str = KIND
    permission: str = "flows:run"
    runs_on: frozenset[str] = _CHAT.runs_on
    runs_by: RunsBy = RunsBy.WORKERS

    def validate(self, payload: Payload) -> None:
        """Raise `InvalidPayload` with every bad field."""
        faults = checks.one_of("flow", payload.get("flow"), FLOWS)
        if not faults:
            faults = flow_of(payload).faults(payload)
        checks.refuse(faults + checks.storable(payload))

    def estimate(self, payload: Payload) -> Estimate:
        """One round: the first."""
        flow = flow_of(payload)
        return _CHAT.estimate(flow.request(payload, flow.begin(0.0)))

    def request(self, payload: Payload, model: str) -> ModelRequest:
        """The completion of a round; `payload` is the one that its flow made for it."""
        return _CHAT.request(payload, model)

    def result(self, answer: ModelAnswer) -> dict[str, Any]:
        """The answer of a round, for its flow to go on from."""
        return _CHAT.result(answer)


def flow_of(payload: Payload) -> FlowKind:
    """The kind of flow of a checked payload."""
    return FLOWS[payload["flow"]]


def round_estimate(request: Payload) -> Estimate:
    """What the completion of a round is expected to use."""
    return _CHAT.estimate(request)

"""Flow `agent`: the model answers, its tool calls are run, it is told what came of them, and so on.

It is over when an answer asks for no tool. The state keeps the messages that came after those of
the payload. An answer's message goes back to the model as it came, null content included; a call
that came without an id of its own, or with one twice, is given one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.kinds import checks
from scheduling.kinds.chat import OPTIONS
from scheduling.kinds.contract import Fault, Payload
from scheduling.kinds.flows.contract import Bounds, Call, Reply, State, Turn
from scheduling.kinds.flows.tools import TOOL_SPECS
from scheduling.kinds.messages import message_faults

MOST_STEPS = 200
MOST_TOOL_CALLS = 1_000
MOST_SECONDS = 7 * 86_400
DEFAULTS = Bounds(steps=20, tool_calls=100, seconds=3_600.0)
PASSED_ON = (
    "max_tokens", "max_completion_tokens", "temperature", "top_p", "presence_penalty",
    "frequency_penalty", "seed", "stop", "parallel_tool_calls",
)  # fmt: skip
"""The options of a chat that each round's completion is asked with."""
BOUNDS = {
    "max_steps": MOST_STEPS, "max_tool_calls": MOST_TOOL_CALLS, "max_seconds": MOST_SECONDS,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The kind of flow itself."""

    name: str = "agent"

    def faults(self, payload: Payload) -> list[Fault]:
        """See `FlowKind.faults`."""
        faults = checks.unknown_fields(
            payload, ("flow", "messages", "tools", *BOUNDS, *PASSED_ON)
        ) + message_faults(payload.get("messages"))
        faults += _tools(payload.get("tools"))
        for name, most in BOUNDS.items():
            if payload.get(name) is not None:
                faults += checks.whole_number(name, payload[name], 1, most)
        for name in PASSED_ON:
            if payload.get(name) is not None:
                faults += OPTIONS[name](name, payload[name])
        return faults

    def bounds(self, payload: Payload) -> Bounds:
        """See `FlowKind.bounds`."""
        return Bounds(
            steps=payload.get("max_steps") or DEFAULTS.steps,
            tool_calls=payload.get("max_tool_calls") or DEFAULTS.tool_calls,
            seconds=payload.get("max_seconds") or DEFAULTS.seconds,
        )

    def begin(self, now: float) -> State:
        """See `FlowKind.begin`."""
        return {"messages": [], "rounds": 0, "tool_calls": 0, "began_at": now, "text": ""}

    def request(self, payload: Payload, state: State) -> Payload:
        """See `FlowKind.request`."""
        tools = [TOOL_SPECS[name].definition() for name in payload.get("tools") or ()]
        options = {name: payload[name] for name in PASSED_ON if payload.get(name) is not None}
        messages = [*payload["messages"], *state["messages"]]
        return {"messages": messages, **options, **({"tools": tools} if tools else {})}

    def answered(self, state: State, answer: Mapping[str, Any], *, serial: int) -> Turn:
        """See `FlowKind.answered`."""
        calls = _calls(answer["tool_calls"], serial)
        message: dict[str, Any] = {"role": "assistant", "content": answer["text"] or None}
        if calls:
            message["tool_calls"] = [_as_told(call) for call in calls]
        after = {
            **state,
            "messages": [*state["messages"], message],
            "rounds": state["rounds"] + 1,
            "text": answer["text"] or state["text"],
            "finish_reason": answer["finish_reason"],
            "model": answer["model"],
        }
        return Turn(state=after, calls=calls)

    def replied(self, state: State, replies: Sequence[Reply]) -> State:
        """See `FlowKind.replied`; a reply that is still to come holds its job's id in its place."""
        told = [
            {"role": "tool", "tool_call_id": one.call.id, "content": one.text}
            | ({"child": one.child} if one.child else {})
            for one in replies
        ]
        return {
            **state,
            "messages": [*state["messages"], *told],
            "tool_calls": state["tool_calls"] + len(replies),
        }

    def waits_for(self, state: State) -> tuple[str, ...]:
        """See `FlowKind.waits_for`."""
        return tuple(one["child"] for one in state["messages"] if "child" in one)

    def told(self, state: State, ends: Mapping[str, str]) -> State:
        """See `FlowKind.told`."""
        return {**state, "messages": [_with_end(one, ends) for one in state["messages"]]}

    def result(self, state: State, *, finished: bool) -> dict[str, Any]:
        """See `FlowKind.result`."""
        return {
            "text": state["text"],
            "finished": finished,
            "rounds": state["rounds"],
            "tool_calls": state["tool_calls"],
            "finish_reason": state.get("finish_reason"),
            "model": state.get("model"),
        }


def _tools(value: object) -> list[Fault]:
    if value is None:
        return []
    known = isinstance(value, list) and all(
        isinstance(name, str) and name in TOOL_SPECS for name in value
    )
    if known and isinstance(value, list) and len(set(value)) == len(value):
        return []
    names = ", ".join(TOOL_SPECS)
    return [Fault(field="tools", sentence=f"must be a list of different tools out of {names}")]


def _calls(asked: Sequence[Mapping[str, Any]], serial: int) -> tuple[Call, ...]:
    seen: set[str] = set()
    calls = []
    for index, one in enumerate(asked):
        own = one["id"] if one["id"] and one["id"] not in seen else f"call_{serial}_{index}"
        seen.add(own)
        function = one["function"]
        calls.append(
            Call(
                key=f"{serial}.{index}",
                id=own,
                name=function["name"],
                arguments=function["arguments"],
            )
        )
    return tuple(calls)


def _as_told(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _with_end(message: Mapping[str, Any], ends: Mapping[str, str]) -> dict[str, Any]:
    kept = dict(message)
    if kept.get("child") in ends:
        kept["content"] = ends[kept.pop("child")]
    return kept

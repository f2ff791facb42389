"""Kind `chat`: one chat completion, in the words of the OpenAI API without `model` and `stream`.

Model and streaming are the scheduler's to choose, so they are no fields of a payload. A field
that we do not know is refused by name: dropping it silently would change what was asked for.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scheduling.kinds import checks
from scheduling.kinds.contract import (
    Estimate,
    Fault,
    ModelAnswer,
    ModelRequest,
    Payload,
    RunsBy,
)
from scheduling.kinds.messages import message_faults, message_tokens, sent_form
from scheduling.kinds.tokens import text_tokens

DEFAULT_OUTPUT_TOKENS = 1_000
MAX_TOKENS = 1_000_000
TOKENS_PER_REQUEST = 3
MAX_STOPS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """The kind itself; it has no state."""

    name: str = "chat"
    permission: str = "chat:use"
    runs_on: frozenset[str] = frozenset({"local-model", "remote-model"})
    runs_by: RunsBy = RunsBy.WORKERS

    def validate(self, payload: Payload) -> None:
        """Raise `InvalidPayload` with every bad field."""
        faults = checks.unknown_fields(payload, ("messages", *OPTIONS))
        faults += message_faults(payload.get("messages"))
        for name, check in OPTIONS.items():
            if payload.get(name) is not None:
                faults += check(name, payload[name])
        checks.refuse(faults + checks.storable(payload))

    def estimate(self, payload: Payload) -> Estimate:
        """Messages and tool definitions by the house's token estimate; output by its limit."""
        given = sum(message_tokens(message) for message in payload["messages"])
        tools = payload.get("tools")
        return Estimate(
            input_tokens=TOKENS_PER_REQUEST
            + given
            + (text_tokens(json.dumps(tools)) if tools else 0),
            output_tokens=_output_limit(payload) or DEFAULT_OUTPUT_TOKENS,
        )

    def request(self, payload: Payload, model: str) -> ModelRequest:
        """The completion; the newer name of the output limit is sent as the one all servers know."""
        params = {
            name: payload[name]
            for name in OPTIONS
            if payload.get(name) is not None and name != "max_completion_tokens"
        }
        limit = _output_limit(payload)
        if limit is not None:
            params["max_tokens"] = limit
        return ModelRequest(
            messages=tuple(sent_form(message) for message in payload["messages"]), params=params
        )

    def result(self, answer: ModelAnswer) -> dict[str, Any]:
        """The answer; an empty text is a result, for a model may have nothing to say."""
        return {
            "text": answer.text,
            "tool_calls": list(answer.tool_calls),
            "finish_reason": answer.finish_reason,
            "model": answer.model,
        }


def _output_limit(payload: Payload) -> int | None:
    limits = [payload.get("max_tokens"), payload.get("max_completion_tokens")]
    return min((limit for limit in limits if limit is not None), default=None)


def _limit(name: str, value: object) -> list[Fault]:
    return checks.whole_number(name, value, 1, MAX_TOKENS)


def _share(name: str, value: object) -> list[Fault]:
    return checks.number(name, value, 0, 1)


def _temperature(name: str, value: object) -> list[Fault]:
    return checks.number(name, value, 0, 2)


def _penalty(name: str, value: object) -> list[Fault]:
    return checks.number(name, value, -2, 2)


def _seed(name: str, value: object) -> list[Fault]:
    return checks.whole_number(name, value, -(2**63), 2**63 - 1)


def _stop(name: str, value: object) -> list[Fault]:
    stops = value if isinstance(value, list) else [value]
    if 1 <= len(stops) <= MAX_STOPS and all(isinstance(stop, str) and stop for stop in stops):
        return []
    return [Fault(field=name, sentence=f"must be a text, or a list of 1 to {MAX_STOPS} texts")]


def _tools(name: str, value: object) -> list[Fault]:
    if isinstance(value, list) and all(map(_is_tool, value)):
        return []
    return [Fault(field=name, sentence="must be a list of objects of type function with a name")]


def _is_tool(tool: object) -> bool:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        return False
    function = tool.get("function")
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _tool_choice(name: str, value: object) -> list[Fault]:
    if isinstance(value, dict):
        return []
    return checks.one_of(name, value, ("none", "auto", "required"))


def _flag(name: str, value: object) -> list[Fault]:
    return [] if isinstance(value, bool) else [Fault(field=name, sentence="must be true or false")]


def _object(name: str, value: object) -> list[Fault]:
    return [] if isinstance(value, dict) else [Fault(field=name, sentence="must be an object")]


OPTIONS: dict[str, Callable[[str, object], list[Fault]]] = {
    "max_tokens": _limit,
    "max_completion_tokens": _limit,
    "temperature": _temperature,
    "top_p": _share,
    "presence_penalty": _penalty,
    "frequency_penalty": _penalty,
    "seed": _seed,
    "stop": _stop,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "parallel_tool_calls": _flag,
    "response_format": _object,
}

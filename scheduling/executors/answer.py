"""Putting an answer together from its pieces, null-safe at every step.

A piece is a chunk of a stream or a whole completion: both carry `choices`, the one with a `delta`,
the other with a `message`. Lines of Ollama's own API are brought into that form first. Only the
first choice is read, for we never ask for more.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from scheduling.executors.contract import ErrorClass
from scheduling.executors.faults import ServerFault
from scheduling.executors.usage import Written
from scheduling.kinds.contract import ModelAnswer
from scheduling.kinds.tokens import text_tokens

MAX_ANSWER_CHARS = 16_000_000


@dataclass(slots=True)
class Answer:
    """What has arrived so far of one answer."""

    finish_reason: str | None = None
    begun: bool = False  # a choice was seen, be it empty
    _text: list[str] = field(default_factory=list)
    _thought: list[str] = field(default_factory=list)
    _calls: list[dict[str, str]] = field(default_factory=list)
    _chars: int = 0
    _model: str | None = None

    @property
    def text(self) -> str:
        """The text so far, in a form that every store can keep."""
        return storable_text("".join(self._text))

    @property
    def has_token(self) -> bool:
        """Whether anything of substance has come: text, reasoning or a tool call."""
        return bool(self._text or self._thought or self._calls)

    def take(self, piece: dict[str, Any]) -> str:
        """Add a piece and return its new text. Raises `ServerFault` if it has no known form."""
        if isinstance(piece.get("model"), str):
            self._model = storable_text(piece["model"])
        choice = _first_choice(piece)
        if choice is None:
            return ""
        self.begun = True
        reason = choice.get("finish_reason")
        self.finish_reason = reason if isinstance(reason, str) else self.finish_reason
        return self._take_delta(choice.get("delta") or choice.get("message") or {})

    def written(self) -> Written:
        """What of it counts as output, by the house's token estimate."""
        calls = "".join(call["name"] + call["arguments"] for call in self._calls)
        whole = "".join(self._text) + "".join(self._thought) + calls
        return Written(tokens=text_tokens(whole), tool_calls=len(self._calls))

    def whole(self) -> ModelAnswer:
        """The answer as the kinds take it."""
        return ModelAnswer(
            text=self.text,
            tool_calls=tuple(_call_form(call) for call in self._calls),
            finish_reason=self.finish_reason,
            model=self._model,
        )

    def _take_delta(self, delta: object) -> str:
        if not isinstance(delta, dict):
            raise _malformed("a choice's delta is not an object")
        text = _text_of(delta.get("content"))
        thought = _text_of(delta.get("reasoning_content") or delta.get("reasoning"))
        self._chars += len(text) + len(thought)
        if self._chars > MAX_ANSWER_CHARS:
            raise _malformed("the answer is longer than any that we keep")
        self._text.extend([text] if text else [])
        self._thought.extend([thought] if thought else [])
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            self._take_call(call)
        return text

    def _take_call(self, call: object) -> None:
        """Add a piece of a tool call: a new id begins a call, other pieces go on with one."""
        if not isinstance(call, dict):
            raise _malformed("a tool call is not an object")
        kept = self._slot(call.get("index"), call.get("id"))
        function = call.get("function")
        if isinstance(function, dict):
            kept["name"] += _text_of(function.get("name"))
            arguments = function.get("arguments")
            kept["arguments"] += (
                json.dumps(arguments) if isinstance(arguments, dict) else _text_of(arguments)
            )

    def _slot(self, index: object, call_id: object) -> dict[str, str]:
        at = index if isinstance(index, int) else len(self._calls) - (0 if call_id else 1)
        known = self._calls[at] if 0 <= at < len(self._calls) else None
        if known is None or (call_id and known["id"] and known["id"] != call_id):
            known = {"id": "", "name": "", "arguments": ""}
            self._calls.append(known)
        known["id"] = known["id"] or _text_of(call_id)
        return known


def openai_form(piece: dict[str, Any]) -> dict[str, Any]:
    """A line of Ollama's own API as a chunk; anything else as it is."""
    if "choices" in piece or not isinstance(piece.get("done"), bool):
        return piece
    reason = (piece.get("done_reason") or "stop") if piece["done"] else None
    choice = {"delta": piece.get("message") or {}, "finish_reason": reason}
    return {"model": piece.get("model"), "choices": [choice], "usage": piece}


def storable_text(text: str) -> str:
    """The text without NUL and half surrogates, which no database column takes.

    Halves that two pieces brought separately are joined to the character they meant.
    """
    if text.isascii():
        return text.replace("\x00", "\ufffd")
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\x00", "\ufffd")


def _first_choice(piece: dict[str, Any]) -> dict[str, Any] | None:
    choices = piece.get("choices")
    if not choices:
        return None
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise _malformed("the choices are not a list of objects")
    return choices[0]


def _text_of(value: object) -> str:
    """A text, or the joined texts of a list of parts; anything else is none."""
    if isinstance(value, list):
        return "".join(_text_of(part.get("text")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _call_form(call: dict[str, str]) -> dict[str, Any]:
    function = {key: storable_text(call[key]) for key in ("name", "arguments")}
    return {"id": storable_text(call["id"]), "type": "function", "function": function}


def _malformed(sentence: str) -> ServerFault:
    return ServerFault(ErrorClass.INVALID_RESPONSE, sentence)

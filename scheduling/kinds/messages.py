"""The messages of a chat payload: their check, their size, and the form in which they are sent.

An assistant's message may come back exactly as a client library wrote it down, null fields
included (`content: null` beside tool calls, `tool_calls: null` beside content); a conversation
that was paid for must not stop at that.
"""

import json
from typing import Any

from scheduling.kinds.checks import one_of, unknown_fields
from scheduling.kinds.contract import Fault
from scheduling.kinds.tokens import text_tokens

MAX_MESSAGES = 2_000
TOKENS_PER_MESSAGE = 4
TOKENS_PER_IMAGE = 1_000

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_SENT = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content")
# Written by client libraries into a saved answer; accepted, and left out when we send.
_IGNORED = ("refusal", "annotations", "audio", "function_call", "reasoning")
_PARTS = {"text": "text", "image_url": "image_url"}


def message_faults(messages: object) -> list[Fault]:
    """Every fault of the `messages` field."""
    if not isinstance(messages, list) or not 1 <= len(messages) <= MAX_MESSAGES:
        return [
            Fault(field="messages", sentence=f"must be a list of 1 to {MAX_MESSAGES:,} messages")
        ]
    return [
        fault
        for index, message in enumerate(messages)
        for fault in _one_message(f"messages[{index}]", message)
    ]


def message_tokens(message: dict[str, Any]) -> int:
    """Estimated tokens of one message: its text, its tool calls, and a small overhead."""
    calls = message.get("tool_calls")
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    written = sum(_part_tokens(part) for part in parts)
    return TOKENS_PER_MESSAGE + written + (text_tokens(json.dumps(calls)) if calls else 0)


def sent_form(message: dict[str, Any]) -> dict[str, Any]:
    """The message as it goes to a server: no null fields but `content`, nothing it may refuse."""
    kept = {key: message[key] for key in _SENT if message.get(key) is not None}
    return {"content": None} | kept


def _one_message(where: str, message: object) -> list[Fault]:
    if not isinstance(message, dict):
        return [Fault(field=where, sentence="must be an object with a role and content")]
    faults = unknown_fields(message, (*_SENT, *_IGNORED), f"{where}.")
    faults += one_of(f"{where}.role", message.get("role"), _ROLES)
    for check in (_content, _tool_calls, _tool_call_id):
        faults += check(where, message)
    return faults


def _content(where: str, message: dict[str, Any]) -> list[Fault]:
    content = message.get("content")
    if isinstance(content, str) or (content is None and message.get("tool_calls")):
        return []
    if isinstance(content, list) and content:
        return [
            Fault(field=f"{where}.content[{index}]", sentence="must be a text or image_url part")
            for index, part in enumerate(content)
            if not _is_part(part)
        ]
    sentence = "must be text, or a list of parts; only a message with tool_calls may leave it null"
    return [Fault(field=f"{where}.content", sentence=sentence)]


def _is_part(part: object) -> bool:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        return False
    key = _PARTS.get(part["type"])
    wanted: type = str if key == "text" else dict
    return key is not None and isinstance(part.get(key), wanted)


def _tool_calls(where: str, message: dict[str, Any]) -> list[Fault]:
    calls = message.get("tool_calls")
    if calls is None or (isinstance(calls, list) and all(map(_is_call, calls))):
        return []
    sentence = "must be null or a list of calls, each with id and function.name and .arguments"
    return [Fault(field=f"{where}.tool_calls", sentence=sentence)]


def _is_call(call: object) -> bool:
    if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
        return False
    function = call["function"]
    texts: tuple[object, ...] = (call.get("id"), function.get("name"), function.get("arguments"))
    return all(isinstance(text, str) for text in texts)


def _tool_call_id(where: str, message: dict[str, Any]) -> list[Fault]:
    if message.get("role") != "tool" or isinstance(message.get("tool_call_id"), str):
        return []
    sentence = "is required in a tool's message: the id of the call that it answers"
    return [Fault(field=f"{where}.tool_call_id", sentence=sentence)]


def _part_tokens(part: dict[str, Any]) -> int:
    if part.get("type") == "image_url":
        return TOKENS_PER_IMAGE
    return text_tokens(str(part.get("text", "")))

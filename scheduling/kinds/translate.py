"""Kind `translate`: one text from one language to another, asked for as a chat completion.

The text is the user's message and the answer's text is the translation, so any chat model that
knows both languages can serve it, and so can a model that does nothing else.
"""

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
    UnusableAnswer,
)
from scheduling.kinds.tokens import text_tokens

MAX_CHARS = 20_000
LANGUAGES = {"en": "English", "pt": "Portuguese"}
PAIRS = frozenset({("en", "pt")})
FIELDS = ("text", "source", "target")
TOKENS_PER_REQUEST = 35  # the instruction and the frame of two messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Translate:
    """The kind itself; it has no state."""

    name: str = "translate"
    permission: str = "tasks:run"
    runs_on: frozenset[str] = frozenset({"local-model", "remote-model"})
    runs_by: RunsBy = RunsBy.WORKERS

    def validate(self, payload: Payload) -> None:
        """Raise `InvalidPayload` with every bad field."""
        faults = checks.unknown_fields(payload, FIELDS)
        faults += checks.missing_fields(payload, FIELDS)
        if "text" in payload:
            faults += _text(payload["text"])
        if "source" in payload and "target" in payload:
            faults += _pair(payload["source"], payload["target"])
        checks.refuse(faults + checks.storable(payload))

    def estimate(self, payload: Payload) -> Estimate:
        """Output as long as the text and half as much again, for translations grow."""
        tokens = text_tokens(payload["text"])
        return Estimate(
            input_tokens=TOKENS_PER_REQUEST + tokens, output_tokens=tokens + -(-tokens // 2)
        )

    def request(self, payload: Payload, model: str) -> ModelRequest:
        """An instruction and the text; temperature 0, for the same text shall give the same."""
        source, target = LANGUAGES[payload["source"]], LANGUAGES[payload["target"]]
        order = f"Translate the user's text from {source} to {target}. Answer with the translation only."
        return ModelRequest(
            messages=(
                {"role": "system", "content": order},
                {"role": "user", "content": payload["text"]},
            ),
            params={"temperature": 0},
        )

    def result(self, answer: ModelAnswer) -> dict[str, Any]:
        """The translation; raises `UnusableAnswer` where there is none, for no text becomes nothing."""
        if not answer.text.strip():
            raise UnusableAnswer("the model gave no translation")
        return {
            "text": answer.text,
            "finish_reason": answer.finish_reason,
            "model": answer.model,
        }


def _text(text: object) -> list[Fault]:
    if isinstance(text, str) and text.strip() and len(text) <= MAX_CHARS:
        return []
    return [Fault(field="text", sentence=f"must be a text of 1 to {MAX_CHARS:,} characters")]


def _pair(source: object, target: object) -> list[Fault]:
    faults = checks.one_of("source", source, LANGUAGES) + checks.one_of("target", target, LANGUAGES)
    if faults or (source, target) in PAIRS:
        return faults
    offered = ", ".join(f"{one} to {other}" for one, other in sorted(PAIRS))
    return [
        Fault(field="target", sentence=f"{source} to {target} is not offered; offered: {offered}")
    ]

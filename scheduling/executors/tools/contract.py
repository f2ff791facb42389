"""What a tool's effect is: text from arguments, or a sentence on why not.

A fault of a tool is told to the model, which may try something else; it never ends a flow.
"""

from collections.abc import Callable, Mapping
from threading import Event
from typing import Any

MOST_CHARS = 16_000
"""The longest reply; a longer one is cut, and says so."""

Effect = Callable[[Mapping[str, Any], Event], str]
"""Arguments (of the right names and types) and the event that cancels it; raises `ToolFault`."""


class ToolFault(Exception):
    """The tool cannot do it; the message is a sentence for the model's eyes, without secrets."""


def cut(text: str) -> str:
    """The text, cut to `MOST_CHARS` with a word on how much is missing."""
    if len(text) <= MOST_CHARS:
        return text
    return f"{text[:MOST_CHARS]}\n[{len(text) - MOST_CHARS} more characters are left out]"

"""The tools that a flow may be given: what a model is told of each. What they do is elsewhere.

A tool that is not idempotent has its start written down before it begins, and is not begun again:
see `scheduling.tasks.rounds`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

SUBMIT_JOB = "submit_job"
"""The tool that submits a job of the flow's own and waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool by name, with its arguments as a JSON schema's properties; `required` of them."""

    name: str
    description: str
    properties: Mapping[str, Any]
    required: tuple[str, ...]
    idempotent: bool = True

    def definition(self) -> dict[str, Any]:
        """The tool as a chat completion names it."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": dict(self.properties),
                    "required": list(self.required),
                },
            },
        }


_TEXT = {"type": "string"}
_ALL = (
    ToolSpec(
        name="calculator",
        description="Work out an arithmetic expression exactly, such as (2 + 3) * sqrt(16).",
        properties={"expression": _TEXT},
        required=("expression",),
    ),
    ToolSpec(
        name="http_get",
        description="Read a text from an http or https address, if its host is on the allow-list.",
        properties={"url": _TEXT},
        required=("url",),
    ),
    ToolSpec(
        name="read_file",
        description="Read a text file of the shared folder by its relative path.",
        properties={"path": _TEXT},
        required=("path",),
    ),
    ToolSpec(
        name=SUBMIT_JOB,
        description="Submit a job of a given kind with its payload, wait for it, and get its result.",
        properties={
            "kind": _TEXT,
            "payload": {"type": "object"},
            "workflow": _TEXT,
            "model": _TEXT,
        },
        required=("kind", "payload"),
    ),
)

TOOL_SPECS: Mapping[str, ToolSpec] = MappingProxyType({spec.name: spec for spec in _ALL})

"""The effects of the tools by name, and the one way to run a call: it always has a reply."""

import json
import logging
import math
from collections.abc import Mapping
from threading import Event
from types import MappingProxyType
from typing import Any

from scheduling.executors.answer import storable_text
from scheduling.executors.tools.calculator import calculate
from scheduling.executors.tools.contract import Effect, ToolFault
from scheduling.executors.tools.http_get import http_get
from scheduling.executors.tools.read_file import read_file
from scheduling.kinds.flows.contract import Call
from scheduling.kinds.flows.tools import ToolSpec

log = logging.getLogger(__name__)

EFFECTS: Mapping[str, Effect] = MappingProxyType(
    {"calculator": calculate, "http_get": http_get, "read_file": read_file}
)
_TYPES: Mapping[str, type] = {"string": str, "object": dict}


def arguments_of(call: Call, spec: ToolSpec) -> dict[str, Any]:
    """The arguments of a call, checked by its tool's names and types; raises `ToolFault`."""
    try:
        given = json.loads(call.arguments or "{}", parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise ToolFault("The arguments are not a JSON object.")
    unknown = sorted(given.keys() - spec.properties.keys())
    missing = sorted(set(spec.required) - given.keys())
    if unknown or missing:
        message = (
            f"{spec.name} takes {', '.join(spec.properties)}; "
            f"{', '.join(spec.required)} must be given."
        )
        raise ToolFault(message)  # fmt: skip
    for name, value in given.items():
        wanted = spec.properties[name]["type"]
        if not isinstance(value, _TYPES[wanted]):
            message = f"{name} must be of type {wanted}."
            raise ToolFault(message)
    return given


def _no_number(name: str) -> float:
    message = f"{name} is no number"
    raise ValueError(message)


def _finite(text: str) -> float:
    """Read a number; no JSON that we store can hold an infinite one."""
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def replied(name: str, arguments: Mapping[str, Any], cancel: Event) -> str:
    """Run a tool; raises `ToolFault` for all that it cannot do, a fault of ours included."""
    try:
        return storable_text(EFFECTS[name](arguments, cancel))
    except ToolFault:
        raise
    except Exception as error:  # a tool's fault is told to the model and never ends a flow
        log.exception("tool %s failed", name)
        message = f"The tool failed ({type(error).__name__})."
        raise ToolFault(message) from None

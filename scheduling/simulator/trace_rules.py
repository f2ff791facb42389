"""The part `trace` of a scenario: which reader takes its file, and how its rows become jobs."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scheduling.core.types import Pool
from scheduling.simulator.errors import InvalidScenario, ScenarioError
from scheduling.simulator.references import Fault
from scheduling.simulator.requests import read_requests
from scheduling.simulator.swf import read_swf
from scheduling.simulator.traces import Trace, TraceRule

_READERS: Mapping[str, Callable[[TraceRule], Trace]] = {"swf": read_swf, "csv": read_requests}
_FOREIGN = {"swf": ("client",), "csv": ("user", "group")}


def in_trace(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is missing, or does not go together."""
    if "file" not in values:
        yield "trace.file", "Is missing; name the trace's file."
    form = values.get("format") or _form_of(values.get("file", ""))
    if form is None:
        yield "trace.format", "Is missing; it is swf or csv."
        return
    if values.get("tenant") in _FOREIGN[form]:
        yield "trace.tenant", f"A file of format {form} has no {values['tenant']}."
    if form == "swf":
        if "duration" in values:
            yield "trace.duration", "A log in swf states how long its jobs ran."
        return
    if values.get("cost") == "processors":
        yield "trace.cost", "A table of requests names no processors; write a number."
    if values.get("expected_s") == "requested":
        yield (
            "trace.expected_s",
            "A table of requests asks for no time; write runtime or leave out.",
        )
    yield from _in_duration(values.get("duration"))


def _in_duration(rule: Mapping[str, Any] | None) -> Iterator[Fault]:
    if rule is None:
        yield "trace.duration", "Is missing; write {fixed: S} or {per_output_token: S, base: S}."
    elif not rule or ("fixed" in rule and len(rule) > 1):
        yield "trace.duration", "Must have either fixed or per_output_token and base."


def _form_of(file: str) -> str | None:
    name = file.lower().removesuffix(".gz")
    return next((form for form in _READERS if name.endswith(f".{form}")), None)


def trace_of(
    folder: Path,
    values: Mapping[str, Any],
    pool: Pool,
    error: Callable[[Fault], ScenarioError],
) -> Trace:
    """Return the trace; raise `InvalidScenario` for a file that cannot be read.

    `error` gives the place in the scenario, which stands in front of what is wrong in the file.
    """
    duration = values.get("duration") or {}
    rule = TraceRule(
        path=folder / values["file"],
        tenant=values.get("tenant", ""),
        cost=None if values.get("cost") == "processors" else values.get("cost"),
        expected=values.get("expected_s", ""),
        fixed_s=duration.get("fixed"),
        per_token_s=duration.get("per_output_token", 0.0),
        base_s=duration.get("base", 0.0),
        budget=pool.budget,
    )
    form = values.get("format") or _form_of(values["file"])
    try:
        return _READERS[form or "csv"](rule)
    except InvalidScenario as wrong:
        here = error(("trace.file", f"{values['file']} cannot be replayed:"))
        raise InvalidScenario([here, *wrong.errors]) from None

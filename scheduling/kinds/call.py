"""Kind `call`: a slot for a model call that the caller's own process makes.

The scheduler admits, funds, orders and places it like any job, and settles what it used; the call
itself is the caller's (`scheduling.client`). So the payload says only what the slot is for and what
the call should use.
"""

from dataclasses import dataclass

from scheduling.kinds import checks
from scheduling.kinds.contract import Estimate, Fault, Payload, RunsBy

MAX_TOKENS = 1_000_000_000
MAX_SECONDS = 86_400
MAX_PURPOSE = 200
FIELDS = ("purpose", "input_tokens", "output_tokens", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The kind itself; it has no state."""

    name: str = "call"
    permission: str = "chat:use"
    runs_on: frozenset[str] = frozenset({"local-model", "remote-model"})
    runs_by: RunsBy = RunsBy.CALLER

    def validate(self, payload: Payload) -> None:
        """Raise `InvalidPayload` with every bad field."""
        faults = checks.unknown_fields(payload, FIELDS)
        faults += checks.missing_fields(payload, FIELDS[1:3])
        faults += _purpose(payload.get("purpose", ""))
        for name in FIELDS[1:3]:
            if name in payload:
                faults += checks.whole_number(name, payload[name], 0, MAX_TOKENS)
        if payload.get("seconds") is not None:
            faults += checks.number("seconds", payload["seconds"], 0, MAX_SECONDS)
        checks.refuse(faults + checks.storable(payload))

    def estimate(self, payload: Payload) -> Estimate:
        """What the payload names."""
        return Estimate(
            input_tokens=payload["input_tokens"],
            output_tokens=payload["output_tokens"],
            seconds=payload.get("seconds"),
        )


def _purpose(value: object) -> list[Fault]:
    if isinstance(value, str) and len(value) <= MAX_PURPOSE:
        return []
    return [Fault(field="purpose", sentence=f"must be a text of at most {MAX_PURPOSE} characters")]

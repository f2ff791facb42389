"""Kind `simulated`: work that only waits, for demos, load tests and dry runs.

Nothing is computed: the job takes the seconds, the tokens and the failure that its payload names.
It runs on executors of kind `simulated` alone, so that no simulated result can pass for a real one.
"""

from dataclasses import dataclass

from scheduling.kinds import checks
from scheduling.kinds.contract import Estimate, Fault, Payload, RunsBy

MAX_SECONDS = 86_400
MAX_TOKENS = 1_000_000_000
FIELDS = ("seconds", "fail", "tokens")
TOKEN_FIELDS = ("input", "output")
# The executors' error classes that can be asked for (a test holds the two lists together).
FAILURES = frozenset(
    {
        "unreachable",
        "timeout",
        "rate_limited",
        "provider_error",
        "invalid_response",
        "invalid_request",
        "unauthorized",
        "interrupted",
        "internal",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The kind itself; it has no state."""

    name: str = "simulated"
    permission: str = "tasks:run"
    runs_on: frozenset[str] = frozenset({"simulated"})
    runs_by: RunsBy = RunsBy.WORKERS

    def validate(self, payload: Payload) -> None:
        """Raise `InvalidPayload` with every bad field."""
        faults = checks.unknown_fields(payload, FIELDS) + checks.missing_fields(payload, FIELDS[:1])
        if "seconds" in payload:
            faults += checks.number("seconds", payload["seconds"], 0, MAX_SECONDS)
        if payload.get("fail") is not None:
            faults += checks.one_of("fail", payload["fail"], FAILURES)
        if payload.get("tokens") is not None:
            faults += _tokens(payload["tokens"])
        checks.refuse(faults + checks.storable(payload))

    def estimate(self, payload: Payload) -> Estimate:
        """Exactly what the payload names."""
        tokens = payload.get("tokens") or {}
        return Estimate(
            input_tokens=tokens.get("input", 0),
            output_tokens=tokens.get("output", 0),
            seconds=float(payload["seconds"]),
        )


def _tokens(tokens: object) -> list[Fault]:
    if not isinstance(tokens, dict):
        return [Fault(field="tokens", sentence="must be an object with input and output")]
    faults = checks.unknown_fields(tokens, TOKEN_FIELDS, "tokens.")
    for name in TOKEN_FIELDS:
        faults += checks.whole_number(f"tokens.{name}", tokens.get(name, 0), 0, MAX_TOKENS)
    return faults

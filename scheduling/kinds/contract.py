"""What a job kind is: the values that pass between a payload, a model call and a job's result.

A kind is pure. It checks a payload when the job is submitted, estimates it for admission, turns
it into a request when an attempt runs, and turns the answer into the JSON that the job keeps. It
knows no executor: an executor asks the kind, never the other way round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

Payload = Mapping[str, Any]


class RunsBy(StrEnum):
    """Who runs a placement of a job, and so who is told of it."""

    WORKERS = "workers"
    """A Celery worker: it gets a message, and another one if nobody claims it in time."""
    CALLER = "caller"
    """The process that asks for the slot; it gets no message, and nobody stands in for it."""
    REVIEWER = "reviewer"
    """A person, who takes as long as it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One bad field of a payload: its path (`messages[2].role`) and a sentence on what to do."""

    field: str
    sentence: str


class InvalidPayload(ValueError):
    """A payload that its kind refuses; `faults` names every bad field."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(f"{fault.field}: {fault.sentence}" for fault in faults))
        self.faults = faults


class UnusableAnswer(ValueError):
    """The model answered in good form, but the answer is no result of this kind of job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a job is expected to use; `seconds` is None where only history can tell."""

    input_tokens: int
    output_tokens: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A chat completion to ask for: the messages, and the other fields of the request body."""

    messages: tuple[dict[str, Any], ...]
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """A whole answer. `text` is "" where the model gave no content, never None."""

    text: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    finish_reason: str | None = None
    model: str | None = None


class Kind(Protocol):
    """A registered kind of job.

    `permission` is what a submitter needs on the workspace; `runs_on` are the executor kinds that
    can run it, and `runs_by` says who does.
    """

    @property
    def name(self) -> str: ...
    @property
    def permission(self) -> str: ...
    @property
    def runs_on(self) -> frozenset[str]: ...
    @property
    def runs_by(self) -> RunsBy: ...

    def validate(self, payload: Payload) -> None:
        """Raise `InvalidPayload` with every bad field."""

    def estimate(self, payload: Payload) -> Estimate:
        """Expected use of a payload that `validate` has passed."""


@runtime_checkable
class ModelKind(Kind, Protocol):
    """A kind whose work is one chat completion."""

    def request(self, payload: Payload, model: str) -> ModelRequest:
        """The completion to ask of `model`."""

    def result(self, answer: ModelAnswer) -> dict[str, Any]:
        """The JSON kept as the job's result; raises `UnusableAnswer`."""

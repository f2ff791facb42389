"""The registered kinds by name; a new kind is one file here and one line below."""

from collections.abc import Mapping
from types import MappingProxyType

from scheduling.kinds.call import Call
from scheduling.kinds.chat import Chat
from scheduling.kinds.contract import Kind, ModelKind, RunsBy
from scheduling.kinds.flow import Flow
from scheduling.kinds.simulated import Simulated
from scheduling.kinds.translate import Translate

_ALL: tuple[Kind, ...] = (Chat(), Flow(), Call(), Translate(), Simulated())

REVIEW = "review"
"""What reviewers do. Nobody submits it: it follows the work that needs it."""
KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})
MODEL_KINDS: Mapping[str, ModelKind] = MappingProxyType(
    {kind.name: kind for kind in _ALL if isinstance(kind, ModelKind)}
)
"""Those whose work is one chat completion."""


class UnknownKind(LookupError):
    """No kind of this name is registered, or it cannot be run as a chat completion."""


def kind_named(name: str) -> Kind:
    """The kind of this name; raises `UnknownKind` with the names that exist."""
    kind = KINDS.get(name)
    if kind is None:
        message = f"{name!r} is not a kind of job; known are {', '.join(sorted(KINDS))}"
        raise UnknownKind(message)
    return kind


def served_on(executor_kind: str) -> frozenset[str]:
    """Return the kinds that workers run on executors of that kind."""
    return frozenset(
        name
        for name, kind in KINDS.items()
        if executor_kind in kind.runs_on and kind.runs_by is RunsBy.WORKERS
    )


def runs_by(name: str) -> RunsBy:
    """Say who runs placements of a kind; of one that is known no more, workers, who will tell."""
    if name == REVIEW:
        return RunsBy.REVIEWER
    kind = KINDS.get(name)
    return RunsBy.WORKERS if kind is None else kind.runs_by


def model_kind_named(name: str) -> ModelKind:
    """The kind of this name, if its work is a chat completion; raises `UnknownKind`."""
    kind = MODEL_KINDS.get(kind_named(name).name)
    if kind is None:
        message = f"jobs of kind {name!r} are not chat completions; no model can run them"
        raise UnknownKind(message)
    return kind

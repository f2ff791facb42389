"""The registered kinds by name; a new kind is one file here and one line below."""

from collections.abc import Mapping
from types import MappingProxyType

from scheduling.kinds.chat import Chat
from scheduling.kinds.contract import Kind, ModelKind
from scheduling.kinds.flow import Flow
from scheduling.kinds.simulated import Simulated
from scheduling.kinds.translate import Translate

_ALL: tuple[Kind, ...] = (Chat(), Flow(), Translate(), Simulated())

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})


class UnknownKind(LookupError):
    """No kind of this name is registered, or it cannot be run as a chat completion."""


def kind_named(name: str) -> Kind:
    """The kind of this name; raises `UnknownKind` with the names that exist."""
    kind = KINDS.get(name)
    if kind is None:
        message = f"{name!r} is not a kind of job; known are {', '.join(sorted(KINDS))}"
        raise UnknownKind(message)
    return kind


def model_kind_named(name: str) -> ModelKind:
    """The kind of this name, if its work is a chat completion; raises `UnknownKind`."""
    kind = kind_named(name)
    if not isinstance(kind, ModelKind):
        message = f"jobs of kind {name!r} are not chat completions; no model can run them"
        raise UnknownKind(message)
    return kind

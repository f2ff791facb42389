"""The registered kinds of flow by name; a new one is a file here and a line below."""

from collections.abc import Mapping
from types import MappingProxyType

from scheduling.kinds.flows.agent import Agent
from scheduling.kinds.flows.contract import FlowKind

_ALL: tuple[FlowKind, ...] = (Agent(),)

FLOWS: Mapping[str, FlowKind] = MappingProxyType({flow.name: flow for flow in _ALL})

"""The executor kinds by name, and the one instance of each executor that a process shares."""

import os
from collections.abc import Callable, Mapping
from threading import Lock
from types import MappingProxyType

from scheduling.executors import local_model, simulated
from scheduling.executors.contract import Executor, ExecutorSpec, Traits

EXECUTORS: Mapping[str, Callable[[ExecutorSpec], Executor]] = MappingProxyType(
    {local_model.KIND: local_model.LocalModel, simulated.KIND: simulated.Simulated}
)


def traits_of(kind: str) -> Traits | None:
    """Return what may be done to work that runs on executors of a kind; None: nobody here knows."""
    traits: Traits | None = getattr(EXECUTORS.get(kind), "traits", None)
    return traits


class UnknownExecutorKind(LookupError):
    """No executor of this kind is registered."""


def build_executor(spec: ExecutorSpec) -> Executor:
    """A new executor; raises `UnknownExecutorKind` with the kinds that exist."""
    factory = EXECUTORS.get(spec.kind)
    if factory is None:
        known = ", ".join(sorted(EXECUTORS))
        message = f"{spec.kind!r} is not a kind of executor; known are {known}"
        raise UnknownExecutorKind(message)
    return factory(spec)


class SharedExecutors:
    """One executor a name, so that threads share its connections and its truth about what runs.

    When the spec of a name changes, new work goes to a new instance; the old one stays until what
    runs on it has ended, and is closed at the first look after that.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._current: dict[str, tuple[ExecutorSpec, Executor]] = {}
        self._retired: list[Executor] = []

    def get(self, spec: ExecutorSpec) -> Executor:
        """The executor of this spec; raises `UnknownExecutorKind`."""
        with self._lock:
            self._close_idle_retired()
            known = self._current.get(spec.name)
            if known is not None and known[0] == spec:
                return known[1]
            fresh = build_executor(spec)
            if known is not None:
                self._retired.append(known[1])
            self._current[spec.name] = (spec, fresh)
            return fresh

    def everything(self) -> tuple[Executor, ...]:
        """All instances, retired ones included: what `running` and `cancel` must look through."""
        with self._lock:
            return (*(executor for _, executor in self._current.values()), *self._retired)

    def forget(self) -> None:
        """Drop all without closing: after a fork the connections belong to the parent."""
        self._lock = Lock()
        self._current, self._retired = {}, []

    def _close_idle_retired(self) -> None:
        for executor in [one for one in self._retired if not one.running()]:
            self._retired.remove(executor)
            executor.close()


SHARED = SharedExecutors()
os.register_at_fork(after_in_child=SHARED.forget)

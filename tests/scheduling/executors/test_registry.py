"""One executor a name and process, and what becomes of it when its spec changes."""

import pytest

from scheduling.executors.contract import ExecutorSpec
from scheduling.executors.registry import SharedExecutors, UnknownExecutorKind, build_executor


def spec(**changes):
    return ExecutorSpec(**({"name": "x", "kind": "simulated"} | changes))


def test_equal_specs_share_an_executor():
    shared = SharedExecutors()
    assert shared.get(spec()) is shared.get(spec())
    assert shared.get(spec(name="y")) is not shared.get(spec())


def test_a_changed_spec_gets_a_new_executor_and_the_old_one_is_closed_when_idle(monkeypatch):
    shared, closed = SharedExecutors(), []
    old = shared.get(spec())
    running = {"attempt"}
    monkeypatch.setattr(old, "running", lambda: frozenset(running))
    monkeypatch.setattr(old, "close", lambda: closed.append(old))
    new = shared.get(spec(slots=2))
    shared.get(spec(slots=2))
    assert set(shared.everything()) == {old, new}
    assert closed == []
    running.clear()
    shared.get(spec(slots=2))
    assert closed == [old]
    assert shared.everything() == (new,)


def test_a_forked_child_starts_with_none():
    shared = SharedExecutors()
    shared.get(spec())
    shared.forget()
    assert shared.everything() == ()


def test_an_unknown_kind_is_told_with_the_known_ones():
    with pytest.raises(UnknownExecutorKind, match="local-model, simulated"):
        build_executor(spec(kind="abacus"))


def test_a_spec_shows_no_key():
    assert "hush" not in repr(spec(api_key="hush"))

"""What the circuits of an executor come to in one word."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduling.models import Executor, Pool
from scheduling.selectors.circuits import circuit_word, circuits_open, models_in
from scheduling.selectors.policy import core_executor
from tests.scheduling.factories import make_executor, set_circuit


@pytest.mark.parametrize(
    ("circuits", "word"),
    [
        ({}, "closed"),
        ({"a": "closed"}, "closed"),
        ({"gone": "open"}, "closed"),
        ({"a": "open"}, "partly_open"),
        ({"a": "half_open"}, "partly_open"),
        ({"a": "open", "b": "open"}, "open"),
        ({"a": "open", "b": "half_open"}, "half_open"),
        ({"": "half_open", "a": "open"}, "half_open"),
        ({"": "open"}, "open"),
    ],
)
def test_the_key_speaks_for_all_models_and_else_all_of_them_together(
    pool: Pool, circuits: dict[str, str], word: str
) -> None:
    executor = make_executor(pool, models_offered=["a", "b"])
    soon = timezone.now() + timedelta(minutes=1)
    for number, (model, state) in enumerate(circuits.items()):
        set_circuit(state, soon + timedelta(minutes=number), model=model)
    own = circuits_open().get(executor.id, ())
    found = circuit_word(executor, own)
    assert found.state == word
    assert found.until == (None if word == "closed" else soon)
    core = core_executor(executor, slots=1, available=True, circuits=own)
    assert core.resting == models_in(own, "open")
    assert core.rests("a") == (circuits.get("a") == "open" or circuits.get("") == "open")
    assert core.rests("") == core.rests("a")  # the first model is what a job without one runs


def test_an_executor_without_models_has_the_circuit_of_its_kind(pool: Pool) -> None:
    executor = make_executor(pool)
    set_circuit("open", timezone.now(), model="simulated")
    assert circuit_word(executor, circuits_open()[executor.id]).state == "open"
    assert Executor.objects.get() == executor

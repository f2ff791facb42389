"""What is remembered is given to who reads the same version of the clock, and to nobody else."""

import pytest

from tenants import remembered
from tenants.controls import NO_VERSION, Version
from tenants.remembered import Remembered


class Shelf:
    """Counts its readings."""

    def __init__(self) -> None:
        self.read: list[tuple[str, Version]] = []

    def __call__(self, key: str, version: Version) -> int:
        self.read.append((key, version))
        return len(self.read)


def test_a_key_is_read_once_a_version() -> None:
    shelf = Shelf()
    kept = Remembered(shelf)
    assert [kept.at((1, 7), "a"), kept.at((1, 7), "a"), kept.at((1, 7), "b")] == [1, 1, 2]
    assert kept.at((2, 8), "a") == 3
    assert kept.at((1, 7), "a") == 4, "an older version is not what is kept"


def test_the_same_number_of_another_transaction_is_another_version() -> None:
    kept = Remembered(Shelf())
    assert [kept.at((1, 7), "a"), kept.at((1, 9), "a")] == [1, 2]


def test_before_the_first_change_nothing_is_kept() -> None:
    kept = Remembered(Shelf())
    assert [kept.at(NO_VERSION, "a"), kept.at(NO_VERSION, "a")] == [1, 2]


def test_a_reading_that_fails_is_tried_again() -> None:
    def fail(_key: str, _version: Version) -> int:
        calls.append(1)
        raise LookupError

    calls: list[int] = []
    kept = Remembered(fail)
    for _ in range(2):
        with pytest.raises(LookupError):
            kept.at((1, 7), "a")
    assert len(calls) == 2


def test_no_more_than_the_most_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST", 2)
    shelf = Shelf()
    kept = Remembered(shelf)
    for key in "abc":
        kept.at((1, 7), key)
    assert kept.at((1, 7), "c") == 3
    assert kept.at((1, 7), "a") == 4

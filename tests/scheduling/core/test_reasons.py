"""The sentences of the reasons."""

from scheduling.core.reasons import REASON_SENTENCES
from scheduling.core.types import Reason


def test_every_reason_is_told_by_a_sentence_of_its_own():
    assert set(REASON_SENTENCES) == set(Reason)
    sentences = list(REASON_SENTENCES.values())
    assert all(one[0].isupper() and one.endswith(".") for one in sentences)
    assert len(set(sentences)) == len(sentences)

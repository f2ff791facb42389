"""The sentence of a reason code as it stands in a row or a snapshot, for the API and the boards."""

from scheduling.core.reasons import REASON_SENTENCES
from scheduling.core.types import Reason


def reason_sentence(code: str) -> str:
    """Return the sentence of a reason code; the code itself where it is unknown to this version."""
    try:
        return REASON_SENTENCES[Reason(code)]
    except ValueError:
        return code

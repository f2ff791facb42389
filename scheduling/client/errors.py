"""What can keep a library user from a slot, each as an exception that says what to do."""

import uuid

from scheduling.services.drafts import FieldError


class NoSlot(Exception):
    """No slot was given; what was submitted for it has ended, unless the subclass says otherwise."""


class NotAdmitted(NoSlot):
    """Admission refused the job: `reason` is its code, "invalid" with `errors` for wrong fields."""

    def __init__(self, reason: str, sentence: str, *, errors: tuple[FieldError, ...] = ()) -> None:
        """Keep the code and the fields."""
        super().__init__(sentence)
        self.reason = reason
        self.errors = errors


class JobOver(NoSlot):
    """The job ended before it had a slot (canceled, expired ...), or had one that was not taken."""

    def __init__(self, job: uuid.UUID, state: str, reason: str) -> None:
        """Keep how it ended."""
        super().__init__(f"The job is {state} ({reason}); submit a new one.")
        self.job = job
        self.state = state
        self.reason = reason


class SlotTimeout(NoSlot, TimeoutError):
    """No slot came in time; `waits` tells whether the job still waits for one."""

    def __init__(self, job: uuid.UUID, timeout_s: float, *, waits: bool) -> None:
        """Keep the job, which may be acquired again if it waits."""
        then = "it waits on; acquire it again" if waits else "it was canceled"
        super().__init__(f"The job had no slot after {timeout_s:g} s; {then}.")
        self.job = job
        self.waits = waits


class InTransaction(RuntimeError):
    """The caller has a transaction open, in which nobody else would ever see the job."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__(
            "A slot cannot be asked for inside a database transaction: the scheduler sees the job "
            "only when it is committed. Leave transaction.atomic() first."
        )

"""Small parts of sentences."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 job, 2 jobs."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

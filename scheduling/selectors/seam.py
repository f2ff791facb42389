"""The queue policy that this installation runs by: the class that the setting QUEUE_POLICY names."""

from functools import cache

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from scheduling.core.admission import Answer, Facts
from scheduling.core.policy.seam import BUILT_IN, QueuePolicy, admitted


def queue_policy() -> QueuePolicy:
    """Return the queue policy; raise `ImproperlyConfigured` for a path that names none."""
    path: str = settings.QUEUE_POLICY
    return _made(path) if path else BUILT_IN


def admit(facts: Facts) -> Answer:
    """Return the installation's verdict on a job."""
    return admitted(queue_policy(), facts)


@cache
def _made(path: str) -> QueuePolicy:
    try:
        kind = import_string(path)
    except ImportError as error:
        message = f"QUEUE_POLICY names {path!r}, which cannot be imported: {error}"
        raise ImproperlyConfigured(message) from error
    if not (isinstance(kind, type) and issubclass(kind, QueuePolicy)):
        message = f"QUEUE_POLICY names {path!r}; name a class derived from {QueuePolicy.__name__}."
        raise ImproperlyConfigured(message)
    return kind()

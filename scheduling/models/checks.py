"""What the constraints of several tables are written with."""

from django.db.models import Q
from django.db.models.functions import Least
from django.db.models.lookups import GreaterThanOrEqual


def at_least(bound: int, *fields: str) -> Q:
    """Return the condition that none of these numbers is below a bound; those that are null pass.

    One comparison for all: the server reads each constraint anew for each statement that writes.
    """
    return Q(GreaterThanOrEqual(Least(*fields), bound))

"""Columns that say which transaction last wrote them, for readers that must miss none.

Theory. A reader keeps the snapshot of its last reading (`pg_snapshot`: the ids below which all had
ended, and those that had not). What a later reading must look at is what that snapshot does not
show; each row is then seen exactly once for each transaction that wrote it, however late that one
commits, and the reader itself writes nothing. A number from a sequence would lose rows that
commit after a later number was seen; a flag must be cleared, which writes each row again.
"""

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Func


class XactField(models.Field):  # type: ignore[type-arg]  # no generic at run time
    """The id of a transaction, 64 bits wide, so that it never begins anew; read as text."""

    description = "Transaction id"

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Return PostgreSQL's type."""
        return "xid8"


class CurrentXact(Func):
    """The id of the transaction that runs the statement."""

    function = "pg_current_xact_id"
    output_field = XactField()

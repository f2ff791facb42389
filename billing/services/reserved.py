"""What waiting jobs have reserved, read without a lock: for forecasts, never for a verdict."""

import uuid
from collections.abc import Collection
from decimal import Decimal

from django.db import connection

from billing.services.sets import array

_OPEN = """
SELECT job_id::text, spend FROM billing_reservation
WHERE job_id = ANY(%s::uuid[]) AND state = 'open' AND spend > 0
"""


def spend_reserved(job_ids: Collection[str | uuid.UUID]) -> dict[str, Decimal]:
    """Return the money (USD) that each job has reserved, by id; those with none are left out."""
    if not job_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, [array(job_ids)])
        return dict(cursor.fetchall())

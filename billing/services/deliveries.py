"""The outbox of webhooks: what is due is claimed, sent, and put down as delivered or to be retried.

Theory. A claim moves `next_at` past the time that sending takes, in a transaction of its own, so no
lock is held while the network is waited for, two senders share the work, and what a killed sender
had claimed is due again soon. A receiver may thus hear of one delivery twice, under one id.
"""

import random
from datetime import datetime, timedelta

from django.db import transaction

from billing.core.webhooks import wait_s
from billing.models import WebhookDelivery
from billing.services.alerts import alert_told
from billing.services.posting import EVENT, Parcel, Receipt, post_all
from billing.services.webhooks import private_allowed, secret_of

SET_ROWS = 50
CLAIM_S = 60.0
GIVE_UP = timedelta(days=1)


def deliveries_due(now: datetime) -> bool:
    """Say whether anything is to be sent."""
    return WebhookDelivery.objects.filter(state="pending", next_at__lte=now).exists()


def deliveries_send(*, now: datetime, limit: int = SET_ROWS) -> int:
    """Send up to `limit` deliveries that are due, the longest due first; returns how many.

    Must not be called in a transaction.
    """
    claimed = _claim(now, limit)
    parcels = [_parcel(row) for row in claimed]
    if parcels:
        at = int(now.timestamp())
        receipts = post_all(parcels, at=at, private_allowed=private_allowed())
        for row, receipt in zip(claimed, receipts, strict=True):
            _put_down(row, receipt, now)
    return len(claimed)


def deliveries_forget(*, before: datetime) -> int:
    """Delete the deliveries that ended before an instant; returns how many."""
    return WebhookDelivery.objects.filter(ended_at__lt=before).delete()[0]


@transaction.atomic(durable=True)
def _claim(now: datetime, limit: int) -> list[WebhookDelivery]:
    due = WebhookDelivery.objects.filter(state="pending", next_at__lte=now)
    rows = list(
        due.select_related("endpoint", "alert__tenant", "alert__budget")
        .order_by("next_at", "id")
        .select_for_update(of=("self",), skip_locked=True)[:limit]
    )
    for row in rows:
        row.tries += 1
        row.next_at = now + timedelta(seconds=CLAIM_S)
    WebhookDelivery.objects.bulk_update(rows, ["tries", "next_at"])
    return rows


def _parcel(row: WebhookDelivery) -> Parcel:
    body = {"id": str(row.id), "type": EVENT, "alert": alert_told(row.alert)}
    endpoint = row.endpoint
    return Parcel(delivery=str(row.id), url=endpoint.url, secret=secret_of(endpoint), body=body)


def _put_down(row: WebhookDelivery, receipt: Receipt, now: datetime) -> None:
    """Note how it went, unless another sender had to take it over meanwhile."""
    again = now + timedelta(seconds=wait_s(row.tries, random.random()))  # noqa: S311 (guards nothing)
    ended = receipt.delivered or again > row.created_at + GIVE_UP
    state = "delivered" if receipt.delivered else "failed" if ended else "pending"
    mine = WebhookDelivery.objects.filter(id=row.id, state="pending", tries=row.tries)
    mine.update(
        state=state,
        ended_at=now if ended else None,
        next_at=row.next_at if ended else again,
        answer=receipt.answer[:200],
    )

"""The import of seed prices into rules of our own, so that a package update changes no old bill.

Theory. A model that has no rule yet gets all the versions that the package knows, back to the
beginning. A model that has rules gets only what is new from now on: a price that differs from the
one in force is a rule that starts now, a price announced for later one that starts then. What was
published by hand is left alone: the operator's price wins. So a second import adds nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from billing.core.pricing import Rate
from billing.models import CostRule
from billing.models import Rate as RateRow
from billing.prices import local
from billing.prices.seed import PACKAGE, Draft, seed
from billing.services.prices import Offer, prices_forget, rate_rows, rates_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """How many rules were added, how many models were left as published by hand, and what was not
    imported, by reason."""

    source: str
    added: int
    kept: int
    skipped: dict[str, int]


@transaction.atomic
def prices_import(*, now: datetime) -> Imported:
    """Bring the rules up to the installed genai-prices and the local prices; safe to repeat."""
    found = seed()
    stored = _stored()
    added, kept = 0, 0
    for source, drafts in ((found.source, found.drafts), (local.SOURCE, local.DRAFTS)):
        new: list[Draft] = []
        for offer, versions in _by_offer(drafts).items():
            have = stored.get(offer, [])
            if all(_is_imported(row) for row in have):
                new += _missing(versions, have, now)
            else:
                kept += 1
        _insert(new, source)
        added += len(new)
    transaction.on_commit(prices_forget)
    return Imported(source=found.source, added=added, kept=kept, skipped=found.skipped)


def _is_imported(row: CostRule) -> bool:
    return row.source.startswith(PACKAGE) or row.source == local.SOURCE


def _stored() -> dict[Offer, list[CostRule]]:
    """Return all rules by offer, newest first."""
    rules: dict[Offer, list[CostRule]] = {}
    for row in CostRule.objects.order_by("-starts_at").prefetch_related("rates"):
        rules.setdefault((row.provider, row.model), []).append(row)
    return rules


def _by_offer(drafts: Iterable[Draft]) -> dict[Offer, list[Draft]]:
    """Group the drafts; of two that start together the later listed one counts."""
    grouped: dict[Offer, dict[datetime, Draft]] = {}
    for draft in drafts:
        grouped.setdefault((draft.provider, draft.model), {})[draft.starts_at] = draft
    return {
        offer: sorted(versions.values(), key=lambda draft: draft.starts_at)
        for offer, versions in grouped.items()
    }


def _missing(versions: list[Draft], have: list[CostRule], now: datetime) -> list[Draft]:
    """Return the drafts to be added: all for a new model, else the changes from now on."""
    if not have:
        return versions
    past = [draft for draft in versions if draft.starts_at <= now]
    in_force = next((row for row in have if row.starts_at <= now), None)
    new: list[Draft] = []
    if past and (in_force is None or _sorted(past[-1].rates) != rates_of(in_force)):
        last = past[-1]
        new.append(
            Draft(
                provider=last.provider,
                model=last.model,
                starts_at=now,
                rates=last.rates,
                note=last.note,
            )
        )
    taken = {row.starts_at for row in have}
    new += [draft for draft in versions if draft.starts_at > now and draft.starts_at not in taken]
    return new


def _sorted(rates: Sequence[Rate]) -> tuple[Rate, ...]:
    return tuple(sorted(rates, key=lambda rate: (rate.meter, rate.above_tokens)))


def _insert(drafts: list[Draft], source: str) -> None:
    rules = [
        CostRule(
            provider=draft.provider,
            model=draft.model,
            starts_at=draft.starts_at,
            source=source,
            note=draft.note,
        )
        for draft in drafts
    ]
    CostRule.objects.bulk_create(rules)
    RateRow.objects.bulk_create(
        row
        for rule, draft in zip(rules, drafts, strict=True)
        for row in rate_rows(rule, draft.rates)
    )

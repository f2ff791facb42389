"""Whether a job that goes on step by step is still funded: it holds one step, and has spent others.

What it holds pays for its next step. Its steps together may use more than was estimated, so a
budget can be full although every verdict was right; the next step is then not begun. No balance is
locked, for nothing is held anew: a step that another one's end overtakes costs a step at most.
"""

import uuid
from datetime import datetime
from decimal import Decimal

from billing.models import Balance
from billing.services.accounts import Account, Chain, budgets_of, budgets_on, window_of
from billing.services.moves import reservations_move
from billing.services.reservations import refused_of
from billing.services.verdicts import Refused

ONCE_A_JOB = "attempts"
"""The dimension of which a next step takes nothing: it is no new attempt."""


def step_refused(
    *, job_id: uuid.UUID, tenant_id: uuid.UUID, chain: Chain, now: datetime
) -> Refused | None:
    """Return the first budget of the chain that has no room for another step of the job, or None.

    What the job holds is brought into the present windows first; a job that does not fit there
    holds nothing any more.
    """
    for refused in reservations_move(job_ids=[job_id], now=now):
        return refused
    budgets = budgets_on(budgets_of([(tenant_id, chain)]), tenant_id, chain)
    spans = {budget.id: window_of(budget, now) for budget in budgets}
    rows = Balance.objects.filter(
        budget__in=spans, window_start__in={span.start for span in spans.values()}
    )
    stand = {(row.budget_id, row.window_start): row for row in rows}
    for budget in budgets:
        balance = stand.get((budget.id, spans[budget.id].start))
        limit = budget.limit_at(now)
        if balance is None or budget.dimension == ONCE_A_JOB:
            continue
        if balance.spent + balance.held > limit:
            account = Account(
                budget=budget,
                window=spans[budget.id],
                balance_id=balance.id,
                dimension=budget.dimension,
                limit=limit,
                spent=balance.spent,
                held=balance.held,
            )
            return refused_of(job_id, account, Decimal(0))
    return None

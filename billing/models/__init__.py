"""What it costs: dated price rules, budgets, reservations, and the append-only ledger.

Only this app imports these models; the others go through `billing.services` and
`billing.reports`. Jobs, attempts, workflows and missions are named by id alone, for billing knows
nothing of scheduling.

Hot queries and their indexes: the price of (provider, model) at an instant (`cost_rule_version`,
unique, read backwards); all budgets of a chain of scopes (`budget_of_scope`); the balance of a
budget in a window (`balance_once`, unique); the open reservations by expiry
(`reservation_open_expiry`, partial); a tenant's ledger by time of dispatch
(`ledger_tenant_dispatched`), one job's (`ledger_job`), and the guard that a usage event is booked
once (`ledger_once`, unique); deliveries that are due (`delivery_due`, partial). A foreign key that
one of these covers, or that no query goes by, has no index of its own.
"""

from billing.models.alerts import BudgetAlert, WebhookDelivery, WebhookEndpoint
from billing.models.budgets import Balance, Budget, BudgetDefault, Escalation
from billing.models.ledger import LedgerEntry
from billing.models.prices import CostRule, Rate
from billing.models.reservations import Reservation, ReservationLine

__all__ = [
    "Balance",
    "Budget",
    "BudgetAlert",
    "BudgetDefault",
    "CostRule",
    "Escalation",
    "LedgerEntry",
    "Rate",
    "Reservation",
    "ReservationLine",
    "WebhookDelivery",
    "WebhookEndpoint",
]

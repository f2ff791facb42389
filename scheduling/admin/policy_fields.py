"""How the settings of a policy are shown in forms: their groups, labels and meanings.

What a field allows comes from the checks that read it (`scheduling.core.policy.document`), so that
the bounds a form tells are the bounds that hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from scheduling.core.policy.checks import (
    Check,
    Choice,
    Flag,
    Group,
    Name,
    Names,
    Number,
    Optional,
    Rows,
    Whole,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A group of fields: its title, what it is about, and by path each label and meaning."""

    title: str
    about: str
    fields: Mapping[str, tuple[str, str]]


CAP = "Jobs at once of one that has no running cap of its own; empty: no cap."
RISK = {
    "labels": "Labels that its executor must have, separated by commas.",
    "needs_review": "Its result waits for a reviewer.",
    "asked_by": "The least role that may submit it.",
}
SECTIONS = (
    Section(
        title="Order",
        about="Who is served when. The classes themselves stand in the table below.",
        fields={
            "default_class": ("Default class", "The class of work that names none."),
            "share_by": ("Share by", "What a placement takes of its tenant's turn."),
            "age_after": (
                "Age after",
                "Seconds of waiting for each class that a job climbs; 0: off.",
            ),
            "age_limit": ("Age limit", "How many of a tenant's oldest startable jobs climb."),
            "starving_after": (
                "Starving after",
                "Seconds of waiting after which a job is flagged.",
            ),
            "deadlines": ("Deadlines", "Deadlines come before age within a workspace's line."),
            "backfill": ("Backfill", "Whether small jobs may pass a head that waits for units."),
            "default_expected_s": ("Expected run", "Seconds, where nothing was measured or given."),
        },
    ),
    Section(
        title="Running caps by default",
        about="A cap set on a tenant, workspace or workflow itself stands above these.",
        fields={
            "default_caps.tenant": ("Tenant", CAP),
            "default_caps.workspace": ("Workspace", CAP),
            "default_caps.workflow": ("Workflow", CAP),
            "default_caps.user": ("User", CAP),
        },
    ),
    Section(
        title="Backlog",
        about="How much may wait before new work is turned away.",
        fields={
            "backlog.workspace": ("Workspace", "The most waiting jobs of one workspace."),
            "backlog.tenant": ("Tenant", "The most waiting jobs of one tenant."),
            "backlog.total": ("In all", "The most waiting jobs of all tenants."),
            "backlog.shed_share": ("Shed from", "Share of the total from which classes are shed."),
        },
    ),
    Section(
        title="Retries",
        about="What happens after a try that failed.",
        fields={
            "retry.max_attempts": ("Tries", "The most tries of a job that names no number."),
            "retry.base_s": ("First wait", "Seconds; each further wait is twice as long."),
            "retry.cap_s": ("Longest back-off", "Seconds; the doubling ends here."),
            "retry.longest_wait_s": ("Longest Retry-After", "Seconds that a server is believed."),
            "retry.budget_ratio": (
                "Retry budget",
                "Retries per success of a provider in the last minute.",
            ),
            "retry.budget_floor": (
                "Budget floor",
                "Retries a minute that a provider may always have.",
            ),
            "on_lost_idempotent": ("Lost, may repeat", "A lost worker's job that may run twice."),
            "on_lost_other": ("Lost, may not repeat", "A lost worker's job that may not."),
        },
    ),
    Section(
        title="Circuits",
        about="When a model of an executor, or its whole key, is left alone.",
        fields={
            "breaker.threshold": ("Threshold", "Failures in a row that open the circuit."),
            "breaker.cooldown_s": ("Rest", "Seconds until it is tried again."),
            "breaker.longest_cooldown_s": ("Longest rest", "Seconds that a server may ask for."),
        },
    ),
    Section(
        title="Preemption",
        about="Whether running work that may yield makes room for a strictly higher class.",
        fields={
            "preemption.enabled": ("Enabled", "A higher class may take a running job's place."),
            "preemption.min_run_s": ("Least run", "Seconds that a victim has run before."),
            "preemption.most_times": (
                "Most times",
                "How often one job may be preempted; then it is spared.",
            ),
        },
    ),
    *(
        Section(
            title=f"Risk: {level}",
            about="Kept and checked; not acted on yet.",
            fields={
                f"risk.{level}.labels": ("Labels", RISK["labels"]),
                f"risk.{level}.needs_review": ("Review", RISK["needs_review"]),
                f"risk.{level}.asked_by": ("Asked by", RISK["asked_by"]),
            },
        )
        for level in ("low", "medium", "high", "critical")
    ),
)
CLASS_LABELS = {
    "name": ("Name", "Its name; an empty row is no class."),
    "fifo": ("Fifo", "Goes by age alone, without shares."),
    "uses_reserve": ("Reserve", "May use the units that pools keep back."),
    "sheddable": ("Sheddable", "Is turned away first when the backlog is full."),
    "ages_to": ("Ages to", "A class above it that waiting jobs may climb to; empty: none."),
    "asked_by": ("Asked by", "The least role that may ask for it."),
    "quota": ("Quota", "The most jobs that a workspace may have in it; empty: no quota."),
}
CANDIDATE_LABELS = {
    "model": ("Candidate", "A model that may stand in; rows of one model are tried in order."),
    "quality_floor": ("Quality", "The least measured quality at which it may."),
    "data_class": ("Data class", "The most sensitive data that it may be given; empty: any."),
    "region": ("Region", "Where it must run; empty: anywhere."),
    "latency_s": ("Latency", "Seconds; the slowest answer. Empty: not bound."),
    "price_ratio": ("Price", "The most it may cost, times the first model's price; empty: any."),
}


class NamesField(forms.CharField):
    """Names separated by commas."""

    def to_python(self, value: object) -> Any:  # noqa: ANN401 - Django's signature
        """Return the list of names."""
        text = super().to_python(value) or ""
        return [one.strip() for one in text.split(",") if one.strip()]

    def prepare_value(self, value: object) -> object:
        """Return the names as they are typed."""
        return ", ".join(value) if isinstance(value, list | tuple) else value


def scalars(checks: Mapping[str, Check], path: str = "") -> dict[str, Check]:
    """Return every check that reads one value, by path; lists of objects are left out."""
    found: dict[str, Check] = {}
    for name, check in checks.items():
        here = f"{path}{name}"
        if isinstance(check, Group):
            found |= scalars(check.fields, f"{here}.")
        elif not isinstance(check, Rows):
            found[here] = check
    return found


def form_field(check: Check, shown: tuple[str, str], *, initial: object = None) -> forms.Field:
    """Return the field that a check's value is typed into, with its bounds in the help."""
    inner = check.check if isinstance(check, Optional) else check
    label, meaning = shown
    told: dict[str, Any] = {"label": label, "initial": initial}
    if not isinstance(inner, Flag):
        told["help_text"] = f"{meaning} {inner.allowed.capitalize()}."
        told["required"] = check is inner
    else:
        told["help_text"] = meaning
    return _typed(inner, told)


def _typed(check: Check, told: dict[str, Any]) -> forms.Field:
    match check:
        case Whole(low=low, high=high):
            return forms.IntegerField(min_value=low, max_value=high, **told)
        case Number(low=least, high=most):
            return forms.FloatField(min_value=least, max_value=most, **told)
        case Choice(names=names):
            return forms.ChoiceField(choices=[(one, one) for one in names], **told)
        case Name(longest=longest, blank=blank):
            required = told["required"] and not blank
            empty = "" if blank or told["required"] else None
            options = told | {"required": required}
            return forms.CharField(max_length=longest, empty_value=empty, **options)
        case Names():
            return NamesField(**told | {"required": False})
    return forms.BooleanField(**told | {"required": False})

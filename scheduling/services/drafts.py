"""Checking one submission: from what was asked to a draft of a job, or every field that is wrong.

Nothing is stored here. Bad input (an unknown workflow, a payload that its kind refuses) is the
submitter's to mend and never becomes a job; a good draft that admission turns down does.
"""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from scheduling.core.policy.settings import RiskRule
from scheduling.core.types import ClassRule
from scheduling.kinds.checks import storable
from scheduling.kinds.contract import InvalidPayload
from scheduling.kinds.registry import KINDS, UnknownKind, kind_named
from scheduling.models import Job, Mission, Workflow
from scheduling.models.workflow import RISKS
from scheduling.services.catalogue import Catalogue
from scheduling.services.rows import row_new
from tenants.ids import new_id
from tenants.roles import JOB_TYPES

MAX_COST = 1_000_000
MAX_ATTEMPTS = 100
MAX_SECONDS = 30 * 86_400.0
MIN_TTL_S = 1.0
"""A shorter time to live than the clock by which jobs expire would be chance."""
MAX_SPEND = Decimal(10**9)
MAX_AMOUNT = 10**11
"""The most of any estimated amount."""
MAX_MODEL, MAX_REGION, MAX_LABEL = 200, 60, 60
"""The most characters of each: what the columns keep."""
OF_COLUMNS = ("input_tokens", "output_tokens", "seconds")
OF_DIMENSIONS = (
    "tool_calls", "environment_seconds", "storage_byte_hours", "network_bytes", "review_minutes",
)  # fmt: skip
ESTIMATES = (*OF_COLUMNS, *OF_DIMENSIONS)
"""What can be estimated: what a job has columns for, and further dimensions of budgets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """A job to wait for, until it has ended as the condition says."""

    job: uuid.UUID
    condition: str = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a submitter may ask for: classes, types of job, levels of risk.

    `above_quota`: the quota of a class does not bind it.
    """

    classes: Collection[str]
    kinds: Collection[str] = JOB_TYPES
    risks: Collection[str] = tuple(RISKS)
    above_quota: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The job whose work submits this one: by which of its calls, and how deep below the first."""

    parent: uuid.UUID
    call: str
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a submitter asks for. Empty and None take the workflow's or the policy's default.

    `ttl_s` is how long it may wait for its start, from its submission: it stands for `expires_at`.

    `estimate` holds amounts by their names (`ESTIMATES`) and goes before what the kind expects.
    """

    workflow: str
    kind: str
    payload: dict[str, Any]
    model: str = ""
    mission: str = ""
    job_class: str = ""
    cost: int | None = None
    expected_s: float | None = None
    max_attempts: int | None = None
    deadline: datetime | None = None
    not_before: datetime | None = None
    expires_at: datetime | None = None
    ttl_s: float | None = None
    region: str = ""
    labels: tuple[str, ...] = ()
    idempotent: bool = True
    paused: bool = False
    risk: str = ""
    estimate: Mapping[str, float] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    data_class: str = ""
    compute_class: str = ""
    keys: tuple[str, ...] = ()
    max_spend: Decimal | None = None
    max_tokens: int | None = None
    review: bool = False
    after: tuple[After, ...] = ()
    lineage: Lineage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One wrong field, and what to do about it."""

    field: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A submission that is no valid job; nothing was stored."""

    errors: tuple[FieldError, ...]


@dataclass(slots=True, kw_only=True)
class Draft:
    """A checked submission: the row to be, with what admission needs beside it.

    `lacks` is the permission on its type of job that the submitter does not have, `other_classes`
    are the classes that may be asked for and have no quota. `waits` says of each job in `after`
    whether it still has to be waited for.
    """

    job: Job
    workflow: Workflow
    rule: ClassRule
    cost: int
    not_before: datetime | None
    lacks: str = ""
    other_classes: tuple[str, ...] = ()
    bound_by_quota: bool = False
    after: tuple[After, ...] = ()
    waits: tuple[bool, ...] = ()
    open_dependencies: int = 0


@dataclass(slots=True)
class _Check:
    """Gathers the errors of one submission."""

    catalogue: Catalogue
    rights: Rights
    lacks: str = ""
    errors: list[FieldError] = field(default_factory=list)

    def wrong(self, name: str, sentence: str) -> None:
        self.errors.append(FieldError(field=name, sentence=sentence))

    def workflow(self, slug: str) -> Workflow | None:
        found = self.catalogue.settings.workflows.get(slug)
        if found is None:
            known = ", ".join(sorted(self.catalogue.settings.workflows)[:12]) or "none yet"
            self.wrong("workflow", f"There is no workflow {slug!r}; this tenant has: {known}.")
        return found

    def mission(self, slug: str) -> Mission | None:
        if not slug:
            return None
        found = self.catalogue.settings.missions.get(slug)
        if found is None:
            self.wrong("mission", f"There is no mission {slug!r} in this tenant.")
        return found

    def rule(self, asked: str, workflow: Workflow | None) -> ClassRule | None:
        policy = self.catalogue.policy
        name = asked or (workflow.job_class if workflow else "") or policy.default_class
        rule = policy.class_named(name)
        if rule is None:
            known = ", ".join(entry.name for entry in policy.classes)
            self.wrong("class", f"There is no class {name!r}; the policy has: {known}.")
        elif name not in self.rights.classes:
            allowed = ", ".join(sorted(self.rights.classes)) or "none"
            self.wrong("class", f"You may not ask for class {name!r}; you may ask for: {allowed}.")
        return rule

    def numbers(self, asked: Submission) -> None:
        self._within("cost", asked.cost, 1, MAX_COST)
        self._within("max_attempts", asked.max_attempts, 1, MAX_ATTEMPTS)
        self._within("expected_s", asked.expected_s, 0, MAX_SECONDS)
        self._within("max_tokens", asked.max_tokens, 0, MAX_AMOUNT)
        self._within("ttl_s", asked.ttl_s, MIN_TTL_S, MAX_SECONDS)
        if asked.ttl_s is not None and asked.expires_at is not None:
            self.wrong("ttl_s", "Stands for expires_at; give one of the two.")
        spend = asked.max_spend
        if spend is not None and not (spend.is_finite() and 0 <= spend <= MAX_SPEND):
            self.wrong("max_spend", f"Must be from 0 to {MAX_SPEND} US dollars.")
        self.amounts(asked)

    def amounts(self, asked: Submission) -> None:
        for name, amount in asked.estimate.items():
            if name not in ESTIMATES:
                self.wrong(f"estimate.{name}", f"Is no estimate; known are {', '.join(ESTIMATES)}.")
            most = MAX_SECONDS if name == "seconds" else MAX_AMOUNT
            self._within(f"estimate.{name}", amount, 0, most)
        if "seconds" in asked.estimate and asked.expected_s is not None:
            self.wrong("estimate.seconds", "Stands for expected_s; give one of the two.")

    def risk(self, asked: str, workflow: Workflow | None) -> RiskRule:
        level = asked or (workflow.risk if workflow else RISKS[0])
        if level not in RISKS:
            self.wrong("risk", f"A risk is one of {', '.join(RISKS)}.")
            return RiskRule()
        if level not in self.rights.risks:
            allowed = ", ".join(one for one in RISKS if one in self.rights.risks) or "none"
            self.wrong("risk", f"You may not submit work of risk {level!r}; you may: {allowed}.")
        rule: RiskRule = getattr(self.catalogue.policy.risk, level)
        return rule

    def others(self) -> tuple[str, ...]:
        classes = self.catalogue.policy.classes
        free = (one.name for one in classes if one.quota is None and not one.sheddable)
        return tuple(name for name in free if name in self.rights.classes)

    def texts(self, asked: Submission) -> None:
        for name, texts, most in (
            ("model", (asked.model,), MAX_MODEL),
            ("region", (asked.region,), MAX_REGION),
            ("labels", asked.labels, MAX_LABEL),
            ("tools", asked.tools, MAX_LABEL),
            ("data_class", (asked.data_class,), MAX_LABEL),
            ("compute_class", (asked.compute_class,), MAX_LABEL),
            ("keys", asked.keys, MAX_MODEL),
        ):
            if any(texts):
                self._text(name, texts, most)

    def _text(self, name: str, texts: Collection[str], most: int) -> None:
        if any(len(text) > most for text in texts):
            self.wrong(name, f"At most {most} characters each.")
        elif faults := storable({name: list(texts)}):
            self.wrong(name, f"It {faults[0].sentence}.")

    def _within(self, name: str, value: float | None, low: float, high: float) -> None:
        if value is not None and not low <= value <= high:
            self.wrong(name, f"Must be from {low:g} to {high:g}, not {value}.")

    def payload(self, kind: str, payload: dict[str, Any]) -> tuple[int, int]:
        try:
            found = kind_named(kind)
            found.validate(payload)
        except UnknownKind:
            self.wrong("kind", f"There is no kind {kind!r}; there are: {', '.join(sorted(KINDS))}.")
            return 0, 0
        except InvalidPayload as invalid:
            for fault in invalid.faults:
                self.wrong(f"payload.{fault.field}", fault.sentence)
            return 0, 0
        if found.permission not in self.rights.kinds:
            self.lacks = found.permission
        estimate = found.estimate(payload)
        return estimate.input_tokens, estimate.output_tokens


def draft(
    asked: Submission,
    catalogue: Catalogue,
    *,
    submitted_by: str,
    rights: Rights,
    now: datetime,
) -> Draft | Refused:
    """Return the draft of a job submitted now, or every error of the submission.

    What it comes `after` is not looked up here: see `scheduling.services.dependencies`.
    """
    check = _Check(catalogue, rights)
    workflow = check.workflow(asked.workflow)
    mission = check.mission(asked.mission)
    rule = check.rule(asked.job_class, workflow)
    check.numbers(asked)
    check.texts(asked)
    risk = check.risk(asked.risk, workflow)
    tokens = check.payload(asked.kind, asked.payload)
    if check.errors or workflow is None or rule is None:
        return Refused(errors=tuple(check.errors))
    lineage = asked.lineage
    related = {"workspace": catalogue.workspace, "workflow": workflow, "mission": mission}
    job = row_new(
        Job,
        related,
        id=new_id(),
        tenant_id=catalogue.workspace.tenant_id,
        workspace_id=catalogue.workspace.id,
        workflow_id=workflow.id,
        mission_id=mission.id if mission else None,
        pool_id=workflow.pool_id,
        kind=asked.kind,
        job_class=rule.name,
        risk=asked.risk or workflow.risk,
        cost=asked.cost,
        paused=asked.paused,
        max_attempts=asked.max_attempts or catalogue.policy.retry.max_attempts,
        idempotent=asked.idempotent,
        payload=asked.payload,
        model=asked.model,
        region=asked.region,
        labels=[*asked.labels, *(one for one in risk.labels if one not in asked.labels)],
        tools=list(asked.tools),
        data_class=asked.data_class,
        compute_class=asked.compute_class,
        keys=list(asked.keys),
        input_tokens=asked.estimate.get("input_tokens", tokens[0]),
        output_tokens=asked.estimate.get("output_tokens", tokens[1]),
        estimate={name: asked.estimate[name] for name in OF_DIMENSIONS if name in asked.estimate},
        max_spend=asked.max_spend,
        max_tokens=asked.max_tokens,
        needs_review=asked.review or risk.needs_review,
        expected_s=asked.estimate.get("seconds", asked.expected_s),
        submitted_by=submitted_by,
        deadline=asked.deadline,
        expires_at=_expires_at(asked, now),
        parent_id=lineage.parent if lineage else None,
        parent_call=lineage.call if lineage else "",
        depth=lineage.depth if lineage else 0,
    )
    return Draft(
        job=job,
        workflow=workflow,
        rule=rule,
        cost=asked.cost or workflow.cost,
        not_before=asked.not_before,
        lacks=check.lacks,
        other_classes=check.others(),
        bound_by_quota=not rights.above_quota,
        after=asked.after,
    )


def _expires_at(asked: Submission, now: datetime) -> datetime | None:
    return asked.expires_at if asked.ttl_s is None else now + timedelta(seconds=asked.ttl_s)

"""Checking one submission: from what was asked to a draft of a job, or every field that is wrong.

Nothing is stored here. Bad input (an unknown workflow, a payload that its kind refuses) is the
submitter's to mend and never becomes a job; a good draft that admission turns down does.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scheduling.core.types import ClassRule
from scheduling.kinds.checks import storable
from scheduling.kinds.contract import InvalidPayload
from scheduling.kinds.registry import KINDS, UnknownKind, kind_named
from scheduling.models import Job, Mission, Workflow
from scheduling.models.workflow import RISKS
from scheduling.services.catalogue import Catalogue
from scheduling.services.rows import row_new
from tenants.ids import new_id

MAX_COST = 1_000_000
MAX_ATTEMPTS = 100
MAX_SECONDS = 30 * 86_400.0
MAX_MODEL, MAX_REGION, MAX_LABEL = 200, 60, 60
"""The most characters of each: what the columns keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a submitter asks for. Empty and None take the workflow's or the policy's default."""

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
    region: str = ""
    labels: tuple[str, ...] = ()
    idempotent: bool = True
    paused: bool = False
    risk: str = ""


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
    """A checked submission: the row to be, with what admission needs beside it."""

    job: Job
    workflow: Workflow
    rule: ClassRule
    cost: int
    not_before: datetime | None


@dataclass(slots=True)
class _Check:
    """Gathers the errors of one submission."""

    catalogue: Catalogue
    may_ask: Collection[str]
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
        elif name not in self.may_ask:
            allowed = ", ".join(sorted(self.may_ask)) or "none"
            self.wrong("class", f"You may not ask for class {name!r}; you may ask for: {allowed}.")
        return rule

    def numbers(self, asked: Submission) -> None:
        self._within("cost", asked.cost, 1, MAX_COST)
        self._within("max_attempts", asked.max_attempts, 1, MAX_ATTEMPTS)
        self._within("expected_s", asked.expected_s, 0, MAX_SECONDS)
        if asked.risk and asked.risk not in RISKS:
            self.wrong("risk", f"A risk is one of {', '.join(RISKS)}.")

    def texts(self, asked: Submission) -> None:
        for name, texts, most in (
            ("model", (asked.model,), MAX_MODEL),
            ("region", (asked.region,), MAX_REGION),
            ("labels", asked.labels, MAX_LABEL),
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
        estimate = found.estimate(payload)
        return estimate.input_tokens, estimate.output_tokens


def draft(
    asked: Submission, catalogue: Catalogue, *, submitted_by: str, may_ask: Collection[str]
) -> Draft | Refused:
    """Return the draft of a job, or every error of the submission."""
    check = _Check(catalogue, may_ask)
    workflow = check.workflow(asked.workflow)
    mission = check.mission(asked.mission)
    rule = check.rule(asked.job_class, workflow)
    check.numbers(asked)
    check.texts(asked)
    tokens = check.payload(asked.kind, asked.payload)
    if check.errors or workflow is None or rule is None:
        return Refused(errors=tuple(check.errors))
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
        labels=list(asked.labels),
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        expected_s=asked.expected_s,
        submitted_by=submitted_by,
        deadline=asked.deadline,
    )
    return Draft(
        job=job,
        workflow=workflow,
        rule=rule,
        cost=asked.cost or workflow.cost,
        not_before=asked.not_before,
    )

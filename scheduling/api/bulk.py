"""/jobs/bulk: up to 10,000 jobs in one call, one verdict a row."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import (
    BULK_EXAMPLES,
    IDEMPOTENCY,
    BulkAnswerSerializer,
    BulkSerializer,
    errors,
)
from scheduling.api.endpoint import Endpoint
from scheduling.api.problems import Problem, invalid
from scheduling.api.scope import workspace_for
from scheduling.api.submissions import (
    WORKSPACE,
    WrongValue,
    fields_read,
    submission_read,
    workspace_named,
)
from scheduling.api.submit import submit
from scheduling.api.writes import body_of, write
from scheduling.core.types import Verdict
from scheduling.services.drafts import FieldError, Refused, Submission
from scheduling.services.idempotency import Answer
from scheduling.services.submission import Accepted
from tenants.rbac import Permission

ROWS = "jobs"
MOST_ROWS = 10_000

Result: TypeAlias = dict[str, Any]


class BulkJobs(Endpoint):
    """Many jobs at once."""

    @extend_schema(
        operation_id="jobs_submit_bulk",
        summary="Submit up to 10,000 jobs",
        parameters=[IDEMPOTENCY],
        request=BulkSerializer,
        examples=BULK_EXAMPLES,
        responses={
            200: BulkAnswerSerializer,
            **errors(400, 401, 403, 404, 409, 413, 415, 503),
        },
    )
    def post(self, request: Request) -> Response:
        """Submit many jobs; a wrong row is told and stores nothing, the others are stored.

        With an Idempotency-Key the whole call is stored in one transaction, without one in sets
        of 500 rows.
        """
        body = body_of(request)
        rows = _rows(body)
        defaults = _defaults(body)
        workspace = workspace_for(self.principal, workspace_named(body), Permission.SUBMIT)
        asked = [_read(defaults, row, index) for index, row in enumerate(rows)]
        principal = self.principal

        def act() -> Answer:
            good = [one for one in asked if isinstance(one, Submission)]
            answers = iter(submit(principal, workspace, good))
            results = [
                _result(index, next(answers) if isinstance(one, Submission) else one)
                for index, one in enumerate(asked)
            ]
            return Answer(status=200, body={"counts": _counts(results), "results": results})

        return write(request, workspace.id, act)


def _rows(body: Mapping[str, Any]) -> list[Any]:
    """Return the rows; raise a `Problem` when there are none or too many."""
    rows = body.get(ROWS)
    if not isinstance(rows, list) or not rows:
        sentence = f"Must be a list of 1 to {MOST_ROWS} jobs."
        raise invalid(FieldError(field=ROWS, sentence=sentence))
    if len(rows) > MOST_ROWS:
        detail = (
            f"A call may have at most {MOST_ROWS} jobs and this one has {len(rows)}; "
            "nothing was stored. Send them in several calls."
        )
        raise Problem(413, "too_many_rows", detail, extra={"limit": MOST_ROWS})
    return rows


def _defaults(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the defaults of the rows as they were sent; raise a `Problem` for wrong ones."""
    defaults = {name: v for name, v in body.items() if name not in (ROWS, WORKSPACE)}
    wrong = fields_read(defaults)[1]
    try:
        workspace_named(body)
    except WrongValue as refused:
        wrong.append(FieldError(field=WORKSPACE, sentence=str(refused)))
    if wrong:
        raise invalid(*wrong)
    return defaults


def _read(defaults: Mapping[str, Any], row: object, index: int) -> Submission | list[FieldError]:
    if not isinstance(row, dict):
        return [FieldError(field=f"{ROWS}[{index}]", sentence="Must be an object.")]
    return submission_read({**defaults, **row}, at=f"{ROWS}[{index}].")


def _result(index: int, answer: Accepted | Refused | Sequence[FieldError]) -> Result:
    if isinstance(answer, Refused):
        at = f"{ROWS}[{index}]."
        errors = [{"field": at + e.field, "sentence": e.sentence} for e in answer.errors]
        return {"index": index, "errors": errors}
    if isinstance(answer, Accepted):
        return {"index": index, **dict(_told(answer))}
    return {
        "index": index,
        "errors": [{"field": e.field, "sentence": e.sentence} for e in answer],
    }


def _told(accepted: Accepted) -> Iterator[tuple[str, Any]]:
    decision = accepted.decision
    yield "id", str(accepted.job.id)
    yield "verdict", str(decision.verdict)
    yield "reason", str(decision.reason)
    if decision.place is not None:
        yield "place", decision.place
    if decision.eta is not None:
        yield "eta", decision.eta.isoformat().replace("+00:00", "Z")
    if decision.verdict in (Verdict.DENIED, Verdict.DEFERRED):
        yield "sentence", decision.sentence


def _counts(results: Sequence[Result]) -> dict[str, int]:
    verdicts = Counter(result.get("verdict", "invalid") for result in results)
    return {name: verdicts[name] for name in [*(v.value for v in Verdict), "invalid"]}

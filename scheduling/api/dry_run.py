"""/jobs/dry-run: the decision that a job would get now. Nothing is stored or held."""

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import JOB_EXAMPLES, SubmitSerializer, errors
from scheduling.api.endpoint import Endpoint
from scheduling.api.problems import invalid, unavailable
from scheduling.api.scope import workspace_for
from scheduling.api.serializers import DecisionSerializer
from scheduling.api.submissions import WORKSPACE, WrongValue, submission_read, workspace_named
from scheduling.api.writes import body_of
from scheduling.models import Decision, PolicyVersion
from scheduling.services.drafts import FieldError, Refused, Submission
from scheduling.services.rehearsal import job_rehearse
from scheduling.services.rights import rights_of
from tenants.models import Workspace
from tenants.rbac import Permission, Principal


class DryRun(Endpoint):
    """Asking for a decision without submitting."""

    @extend_schema(
        operation_id="jobs_dry_run",
        summary="Ask what decision a job would get; nothing is stored or held",
        request=SubmitSerializer,
        examples=JOB_EXAMPLES,
        responses={200: DecisionSerializer, **errors(400, 401, 403, 404, 413, 415, 503)},
    )
    def post(self, request: Request) -> Response:
        """Answer the decision that `POST /jobs` would give to this body now, a denial as well.

        There is no reservation in it, and nothing to repeat safely: no Idempotency-Key is needed.
        """
        workspace, asked = submission_asked(self.principal, request)
        decision = _decision(self.principal, workspace, asked)
        if isinstance(decision, Refused):
            raise invalid(*decision.errors)
        return Response(DecisionSerializer(decision).data)


def submission_asked(principal: Principal, request: Request) -> tuple[Workspace, Submission]:
    """Return where the body would be submitted, and what; raise a 400, 403 or 404 `Problem`."""
    body = body_of(request)
    try:
        named = workspace_named(body)
    except WrongValue as wrong:
        raise invalid(FieldError(field=WORKSPACE, sentence=str(wrong))) from None
    workspace = workspace_for(principal, named, Permission.SUBMIT)
    asked = submission_read({k: v for k, v in body.items() if k != WORKSPACE})
    if isinstance(asked, list):
        raise invalid(*asked)
    return workspace, asked


def _decision(principal: Principal, workspace: Workspace, asked: Submission) -> Decision | Refused:
    try:
        return job_rehearse(
            workspace=workspace,
            submitted_by=principal.name,
            submission=asked,
            rights=rights_of(principal, workspace),
            now=timezone.now(),
        )
    except PolicyVersion.DoesNotExist:
        raise unavailable(
            "No scheduling policy is published, so nothing can be submitted"
        ) from None

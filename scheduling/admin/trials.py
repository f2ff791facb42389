"""Trials of policies in the admin: what a draft would do to the live backlog, as tables with bars."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from scheduling.admin.operators import OperatorsOnly
from scheduling.admin.trial_page import sections_of
from scheduling.models import PolicyTrial

REFRESH_S = 2
"""How often the page of an open trial is asked for again; no script is needed for that."""


@admin.register(PolicyTrial)
class PolicyTrialAdmin(OperatorsOnly):
    """Trials, newest first; operators see them."""

    list_display = ["number", "against", "state", "asked_by", "asked_at", "ended_at"]
    list_filter = ["state"]

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show a trial: that it runs, what kept it, or what it came to."""
        if object_id is None or not self.has_view_permission(request):
            raise PermissionDenied
        trial = self.get_object(request, object_id)
        if not isinstance(trial, PolicyTrial):
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined,no-any-return]
        context = {
            **self.admin_site.each_context(request),
            "title": str(trial).capitalize(),
            "opts": self.opts,
            "original": trial,
            "has_view_permission": True,
            "changes": (trial.result or {}).get("changes", []),
            "sections": sections_of(trial.result or {}),
        }
        response = TemplateResponse(request, "admin/trial.html", context)
        if trial.is_open:
            response["Refresh"] = str(REFRESH_S)
        return response

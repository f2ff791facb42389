"""Policy versions in the admin: each opens as a form, to be drafted, tried, published or rolled back to."""

from collections.abc import Mapping
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import AdminForm
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from scheduling.admin.operators import OperatorsOnly
from scheduling.admin.policy_fields import SECTIONS
from scheduling.admin.policy_form import PolicyPage
from scheduling.controls.policies import policy_draft, policy_publish, policy_roll_back
from scheduling.controls.trials import policy_simulate
from scheduling.core.policy.document import InvalidPolicy
from scheduling.models import PolicyTrial, PolicyVersion
from tenants.controls import ControlRefused

DRAFT, PUBLISH, ROLL_BACK, TRY = "_draft", "_publish", "_roll_back", "_try"
BUTTONS = {
    "draft": {
        DRAFT: "Save draft",
        PUBLISH: "Publish",
        TRY: "Try the saved draft on the live backlog",
    },
    "active": {DRAFT: "Save as a new draft", PUBLISH: "Publish as a new version"},
    "retired": {
        DRAFT: "Save as a new draft",
        ROLL_BACK: "Roll back to this version",
        TRY: "Try this version on the live backlog",
    },
}
DONE = {
    DRAFT: "Version {} is kept as a draft; it is not in force.",
    PUBLISH: "Version {} is in force.",
    ROLL_BACK: "Version {} is in force, with the settings of version {}.",
}


@admin.register(PolicyVersion)
class PolicyVersionAdmin(OperatorsOnly):
    """Policy versions, newest first; operators change them."""

    list_display = ["number", "state", "note", "author", "published_at"]

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Let operators in; what is published is changed by a new version alone."""
        return self.has_module_permission(request)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Mapping[str, Any] | None = None,
    ) -> HttpResponse:
        """Show a version as a form, and do what a button says."""
        if object_id is None or not self.has_change_permission(request):
            raise PermissionDenied
        row = self.get_object(request, object_id)
        if not isinstance(row, PolicyVersion):
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined,no-any-return]
        if TRY in request.POST:
            return _tried(request, row)
        page = PolicyPage(row.body, request.POST if request.method == "POST" else None)
        number = _done(request, row, page) if request.method == "POST" else None
        if number is None:
            return self._shown(request, row, page)
        return HttpResponseRedirect(reverse("admin:scheduling_policyversion_change", args=[number]))

    def _shown(
        self, request: HttpRequest, row: PolicyVersion, page: PolicyPage
    ) -> TemplateResponse:
        fieldsets = [
            ("Version", {"fields": ["note"]}),
            *(
                (one.title, {"fields": list(one.fields), "description": one.about})
                for one in SECTIONS
            ),
        ]
        form = AdminForm(page.form, fieldsets, {}, (), model_admin=self)  # type: ignore[arg-type]
        tables = [
            ("Classes, the first served first", page.classes),
            ("Fallback lists: who may stand in for a model that fails", page.candidates),
        ]
        context = {
            **self.admin_site.each_context(request),
            "title": str(row).capitalize(),
            "opts": self.opts,
            "original": row,
            "change": True,
            "has_view_permission": True,
            "adminform": form,
            "inline_admin_formsets": [],
            "tables": tables,
            "errors": page.errors(),
            "buttons": BUTTONS[row.state],
            "trials": PolicyTrial.objects.filter(number=row.number).defer("result", "body")[:5],
            "media": self.media + page.form.media,
        }
        return TemplateResponse(request, "admin/policy.html", context)


def _tried(request: HttpRequest, row: PolicyVersion) -> HttpResponse:
    """Ask for a trial of the version as it is stored, whatever was typed; show how it goes."""
    who = request.user.get_username()
    try:
        trial = policy_simulate(number=row.number, acting_user=who, reason="tried in the admin")
    except (ControlRefused, InvalidPolicy) as refused:
        messages.error(request, str(refused))
        where = reverse("admin:scheduling_policyversion_change", args=[row.number])
        return HttpResponseRedirect(where)
    return HttpResponseRedirect(reverse("admin:scheduling_policytrial_change", args=[trial.id]))


def _done(request: HttpRequest, row: PolicyVersion, page: PolicyPage) -> int | None:
    """Do what the pressed button says; returns the version's number, None when errors are shown."""
    action = next((one for one in DONE if one in request.POST), DRAFT)
    if not (page.has_note() if action == ROLL_BACK else page.is_valid()):
        return None
    try:
        number = _pull(action, row, page, request.user.get_username())
    except (ControlRefused, InvalidPolicy) as refused:
        page.form.add_error(None, str(refused))
        return None
    messages.success(request, DONE[action].format(number, row.number))
    return number


def _pull(action: str, row: PolicyVersion, page: PolicyPage, who: str) -> int:
    number = row.number if row.state == "draft" else None
    if action == ROLL_BACK:
        return policy_roll_back(number=row.number, note=page.note, acting_user=who)
    if action == PUBLISH:
        over = row.number if number is None else None
        return policy_publish(
            body=page.settings, number=number, over=over, note=page.note, acting_user=who
        )
    return policy_draft(
        body=page.settings, note=page.note, acting_user=who, reason=page.note, number=number
    )

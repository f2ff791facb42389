"""One page's forms of a policy: a field a setting, the class table, and the fallback lists.

They are read into the plain data that the API takes too, and checked by the same reader; its errors
go back to the fields they name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

from django import forms
from django.http import QueryDict

from scheduling.admin.policy_fields import (
    CANDIDATE_LABELS,
    CLASS_LABELS,
    SECTIONS,
    form_field,
    scalars,
)
from scheduling.controls.policies import policy_validate
from scheduling.core.policy.checks import Name
from scheduling.core.policy.document import CANDIDATE, CLASS, POLICY, InvalidPolicy, to_dict
from scheduling.core.policy.settings import Candidate, Policy
from scheduling.core.types import ClassRule

if TYPE_CHECKING:
    BaseTable = forms.BaseFormSet[forms.Form]
else:
    BaseTable = forms.BaseFormSet  # generic for the type checker alone

Settings: TypeAlias = dict[str, Any]

SCALARS = scalars({name: check for name, check in POLICY.items() if name != "number"})
LONGEST_NOTE = 500


class SettingsForm(forms.Form):
    """The settings that are one value each, named by their paths, and the note."""

    note = forms.CharField(
        max_length=LONGEST_NOTE,
        help_text=f"Why: it stays with the version and in the audit. Up to {LONGEST_NOTE} characters.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's
        """Add a field for every setting."""
        super().__init__(*args, **kwargs)
        for section in SECTIONS:
            for path, shown in section.fields.items():
                self.fields[path] = form_field(SCALARS[path], shown)


def _initials(kind: type) -> dict[str, Any]:
    return {
        one.name: one.default for one in fields(kind) if isinstance(one.default, (str, float, int))
    }


class ClassForm(forms.Form):
    """One class of the table."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's
        """Add the fields of a class."""
        super().__init__(*args, **kwargs)
        initials = _initials(ClassRule)
        for name, shown in CLASS_LABELS.items():
            self.fields[name] = form_field(CLASS[name], shown, initial=initials.get(name))


class CandidateForm(forms.Form):
    """One candidate of one model's fallback list."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's
        """Add the model that it stands in for, and the fields of a candidate."""
        super().__init__(*args, **kwargs)
        initials = _initials(Candidate)
        instead_of = ("Instead of", "The model that failed; an empty row is no candidate.")
        self.fields["instead_of"] = form_field(Name(200), instead_of)
        for name, shown in CANDIDATE_LABELS.items():
            self.fields[name] = form_field(CANDIDATE[name], shown, initial=initials.get(name))


class Table(BaseTable):
    """Rows that can be moved and taken out; the columns' heads do not name a row's inputs."""

    def add_fields(self, form: forms.Form, index: int | None) -> None:
        """Add the place and the mark, named for those who do not see the columns."""
        super().add_fields(form, index)
        form.fields["ORDER"].label, form.fields["DELETE"].label = "Place", "Take out"
        for field in form.fields.values():
            field.widget.attrs["aria-label"] = field.label


_TABLE: dict[str, Any] = {"formset": Table, "can_order": True, "can_delete": True}
ClassTable = forms.formset_factory(ClassForm, extra=2, **_TABLE)
CandidateTable = forms.formset_factory(CandidateForm, extra=3, **_TABLE)


class PolicyPage:
    """All forms of a page; `settings` is the body after `is_valid`."""

    def __init__(self, body: Mapping[str, Any], data: QueryDict | None = None) -> None:
        """Show the settings of `body`, or what was typed instead."""
        shown = to_dict(Policy()) | dict(body)
        candidates = [
            {"instead_of": one["model"], **candidate}
            for one in shown["fallback"]
            for candidate in one["candidates"]
        ]
        initial = {path: _at(shown, path) for path in SCALARS}
        self.form = SettingsForm(data, initial=initial)
        self.classes = ClassTable(data, initial=shown["classes"], prefix="classes")
        self.candidates = CandidateTable(data, initial=candidates, prefix="candidates")
        self.settings: Settings = {}

    def has_note(self) -> bool:
        """Tell whether the note is right, whatever the settings are."""
        return "note" not in self.form.errors

    @property
    def note(self) -> str:
        """Return the note that was typed."""
        return str(self.form.cleaned_data["note"])

    def errors(self) -> list[str]:
        """Return every error of the page."""
        parts = (self.form, *self.classes.forms, *self.candidates.forms)
        return [error for part in parts for told in part.errors.values() for error in told]

    def is_valid(self) -> bool:
        """Check everything; each error goes to its field."""
        parts = (self.form, self.classes, self.candidates)
        if not all(part.is_valid() for part in parts):
            return False
        classes, lists = self.classes.ordered_forms, self._lists()
        self.settings = _nested(self.form.cleaned_data) | {
            "classes": [_row(one, CLASS) for one in classes],
            "fallback": [
                {"model": model, "candidates": [_row(one, CANDIDATE) for one in rows]}
                for model, rows in lists.items()
            ],
        }
        try:
            policy_validate(self.settings)
        except InvalidPolicy as wrong:
            for error in wrong.errors:
                form, field = self._place(error.field.split("."), classes, list(lists.values()))
                sentence = error.sentence if field else f"{error.field}: {error.sentence}"
                form.add_error(field, sentence)
            return False
        return True

    def _lists(self) -> dict[str, list[forms.Form]]:
        """Return the candidates' forms by the model that they stand in for, in order."""
        lists: dict[str, list[forms.Form]] = {}
        for one in self.candidates.ordered_forms:
            lists.setdefault(one.cleaned_data["instead_of"], []).append(one)
        return lists

    def _place(
        self, path: list[str], classes: Sequence[forms.Form], lists: Sequence[Sequence[forms.Form]]
    ) -> tuple[forms.Form, str | None]:
        """Return the form and the field that an error's path names."""
        match path:
            case ["classes", at, field]:
                return classes[int(at)], field
            case ["fallback", at, "candidates", place, field]:
                return lists[int(at)][int(place)], field
            case ["fallback", at, *_]:
                return lists[int(at)][0], "instead_of"
        name = ".".join(path)
        return self.form, name if name in self.form.fields else None


def _row(form: forms.Form, checks: Mapping[str, Any]) -> Settings:
    return {name: form.cleaned_data[name] for name in checks}


def _at(body: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401 - a setting
    """Return the setting at a path; None for one that the body leaves out."""
    found: Any = body
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _nested(flat: Mapping[str, Any]) -> Settings:
    """Return the settings of a form, put in their groups."""
    body: Settings = {}
    for path in SCALARS:
        *groups, name = path.split(".")
        here = body
        for group in groups:
            here = here.setdefault(group, {})
        here[name] = flat[path]
    return body

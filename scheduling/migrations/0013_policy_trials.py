"""Trials of policies: what was asked, how far it is, and what came of it."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models.functions import Now

import tenants.ids

STATES = ["asked", "running", "done", "failed"]


class Migration(migrations.Migration):
    """Adds a table."""

    dependencies: ClassVar = [("scheduling", "0012_preemption")]

    operations: ClassVar = [
        migrations.CreateModel(
            name="PolicyTrial",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("body", models.JSONField()),
                (
                    "state",
                    models.CharField(
                        choices=[(s, s) for s in STATES], default="asked", max_length=7
                    ),
                ),
                ("against", models.PositiveIntegerField(null=True)),
                ("result", models.JSONField(null=True)),
                ("sentence", models.TextField(default="")),
                ("asked_by", models.CharField(max_length=200)),
                ("asked_at", models.DateTimeField(db_default=Now(), editable=False)),
                ("began_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", STATES)), name="trial_state_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "done"), _negated=True),
                            ("result__isnull", False),
                            _connector="OR",
                        ),
                        name="trial_done_has_result",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["asked", "running"])),
                        fields=("number",),
                        name="one_open_trial_a_version",
                    ),
                ],
            },
        ),
    ]

"""Steps of a job: where the present one began, what the last one left; jobs submitted by jobs."""

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds columns with defaults, and one partial index; no row is rewritten."""

    dependencies: ClassVar = [
        ("scheduling", "0008_changed_by_transaction"),
        ("tenants", "0002_roles"),
    ]

    operations: ClassVar = [
        migrations.AddField(
            model_name="job", name="checkpoint", field=models.JSONField(null=True)
        ),
        migrations.AddField(
            model_name="job", name="step_fence", field=models.PositiveIntegerField(default=0)
        ),
        migrations.AddField(
            model_name="job",
            name="parent",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="children",
                to="scheduling.job",
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="parent_call",
            field=models.CharField(blank=True, default="", max_length=40),
        ),
        migrations.AddField(
            model_name="job", name="depth", field=models.PositiveSmallIntegerField(default=0)
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                condition=models.Q(("parent__isnull", False)),
                fields=("parent", "parent_call"),
                name="job_child_once",
            ),
        ),
    ]

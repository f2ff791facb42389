"""Conditions on outcomes, and jobs that expire."""

from typing import ClassVar

from django.db import migrations, models

CONDITIONS = ["done", "ended", "failed", "accepted", "rejected"]
WAITING = ["deferred", "queued", "waiting"]

# Back at two conditions, what waits for an outcome waits for any end.
_BACK = "UPDATE scheduling_jobdependency SET condition = 'ended' WHERE condition <> 'done'"


class Migration(migrations.Migration):
    """Adds columns without rewriting a row, and partial indexes that begin empty."""

    dependencies: ClassVar = [("scheduling", "0009_steps")]

    operations: ClassVar = [
        migrations.RemoveConstraint(
            model_name="jobdependency", name="dependency_condition_known"
        ),
        migrations.AlterField(
            model_name="jobdependency",
            name="condition",
            field=models.CharField(max_length=8, choices=[(c, c) for c in CONDITIONS]),
        ),
        migrations.RunSQL(sql=migrations.RunSQL.noop, reverse_sql=_BACK),
        migrations.AddConstraint(
            model_name="jobdependency",
            constraint=models.CheckConstraint(
                condition=models.Q(("condition__in", CONDITIONS)),
                name="dependency_condition_known",
            ),
        ),
        migrations.AddField(
            model_name="job", name="expires_at", field=models.DateTimeField(null=True)
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["expires_at"],
                condition=models.Q(("expires_at__isnull", False), ("state__in", WAITING)),
                name="job_expires",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["deadline"],
                condition=models.Q(("deadline__isnull", False), ("state__in", WAITING)),
                name="job_deadline",
            ),
        ),
    ]

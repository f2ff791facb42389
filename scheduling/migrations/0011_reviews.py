"""Reviews as a phase of a job, conditions on outcomes, and jobs that expire."""

from typing import ClassVar

from django.db import migrations, models

CONDITIONS = ["done", "ended", "failed", "accepted", "rejected"]
PHASES = ["work", "review"]
WAITING = ["deferred", "queued", "waiting"]

# Back at two conditions, what waits for an outcome waits for any end.
_BACK = "UPDATE scheduling_jobdependency SET condition = 'ended' WHERE condition <> 'done'"
_UNITS_BACK = "UPDATE scheduling_attempt SET cost = 1 WHERE cost = 0"


class Migration(migrations.Migration):
    """Adds columns without rewriting a row, and partial indexes that begin empty."""

    dependencies: ClassVar = [("scheduling", "0010_circuits")]

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
            model_name="job",
            name="phase",
            field=models.CharField(
                choices=[(p, p) for p in PHASES], default="work", max_length=6
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("phase__in", PHASES)), name="job_phase_known"
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["seq"],
                condition=models.Q(("finished_at", None), ("phase", "review")),
                name="job_reviews",
            ),
        ),
        migrations.AddField(
            model_name="attempt",
            name="reviewer",
            field=models.CharField(blank=True, db_default="", max_length=200),
        ),
        migrations.RemoveConstraint(model_name="attempt", name="attempt_cost_positive"),
        migrations.RunSQL(sql=migrations.RunSQL.noop, reverse_sql=_UNITS_BACK),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(("cost__gte", 0)), name="attempt_cost_positive"
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

"""What an attempt was asked to stop for, how often a job made room, and draining that stops."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds columns that are empty until work is asked to make room."""

    dependencies: ClassVar = [("scheduling", "0011_reviews")]

    operations: ClassVar = [
        migrations.AddField(
            model_name="attempt",
            name="stop_for",
            field=models.CharField(
                blank=True,
                choices=[("cancel", "cancel"), ("preempt", "preempt"), ("drain", "drain")],
                db_default="",
                default="",
                max_length=7,
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(("stop_for__in", ["", "cancel", "preempt", "drain"])),
                name="attempt_stop_for_known",
            ),
        ),
        migrations.AddField(
            model_name="executor",
            name="drain_stops",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="job",
            name="preemptions",
            field=models.PositiveIntegerField(default=0),
        ),
    ]

"""Circuits get a table of their own; jobs say what they run, and where they may, after a fallback.

Circuits begin closed: what they stood at is known again after the next calls.
"""

from typing import ClassVar

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

STATES = ["closed", "open", "half_open"]


class Migration(migrations.Migration):
    """Moves the circuit from the executor's row, and adds the model in force to the job's."""

    dependencies: ClassVar = [("scheduling", "0009_steps")]

    operations: ClassVar = [
        migrations.RemoveConstraint("executor", "executor_circuit_known"),
        migrations.RemoveConstraint("executor", "executor_open_circuit_has_end"),
        migrations.RemoveField("executor", "circuit"),
        migrations.RemoveField("executor", "circuit_failures"),
        migrations.RemoveField("executor", "circuit_until"),
        migrations.CreateModel(
            name="Circuit",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("model", models.CharField(blank=True, max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[(one, one) for one in STATES], default="closed", max_length=9
                    ),
                ),
                ("failures", models.PositiveIntegerField(default=0)),
                ("until", models.DateTimeField(blank=True, null=True)),
                (
                    "executor",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="circuits",
                        to="scheduling.executor",
                    ),
                ),
            ],
            options={
                "ordering": ["executor", "model"],
                "constraints": [
                    models.UniqueConstraint(fields=["executor", "model"], name="circuit_once"),
                    models.CheckConstraint(
                        condition=Q(state__in=STATES), name="circuit_state_known"
                    ),
                    models.CheckConstraint(
                        condition=Q(state="closed") | Q(until__isnull=False),
                        name="circuit_open_has_end",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="job",
            name="runs_model",
            field=models.CharField(blank=True, default="", max_length=200),
        ),
        migrations.AddField(
            model_name="job",
            name="places",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.UUIDField(), default=list, size=None
            ),
        ),
    ]

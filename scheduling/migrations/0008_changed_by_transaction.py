"""`Job.changed` names the transaction that changed the row, so that its reader writes nothing."""

from typing import ClassVar

from django.db import migrations, models

import scheduling.models.xact


class Migration(migrations.Migration):
    """Replaces the flag and its index."""

    dependencies: ClassVar = [("scheduling", "0007_limit_raises")]

    operations: ClassVar = [
        migrations.RemoveIndex(model_name="job", name="job_changed"),
        migrations.RemoveField(model_name="job", name="changed"),
        migrations.AddField(
            model_name="job",
            name="changed",
            field=scheduling.models.xact.XactField(
                db_default=scheduling.models.xact.CurrentXact(), editable=False
            ),
        ),
        migrations.AddIndex(
            model_name="job", index=models.Index(fields=["changed"], name="job_changed")
        ),
    ]

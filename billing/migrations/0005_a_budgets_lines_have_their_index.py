"""The index by which a budget's lines are found, which the books without keys had lost, is back.

It is there already where that migration ran in a form of some hours that left it.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('billing', '0004_books_without_keys'),
    ]

    operations = [
        migrations.RunSQL(
            'DROP INDEX IF EXISTS billing_reservationline_budget_id_b7223e58',
            migrations.RunSQL.noop,
        ),
        migrations.AlterField(
            model_name='reservationline',
            name='budget',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='billing.budget'),
        ),
    ]

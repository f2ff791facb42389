from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduling', '0013_policy_trials'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='model',
            field=models.CharField(blank=True, db_default='', default='', max_length=200),
        ),
    ]

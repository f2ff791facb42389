import django.db.models.deletion
import django.db.models.functions.datetime
import tenants.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('scope', models.CharField(choices=[('tenant', 'tenant'), ('workspace', 'workspace'), ('member', 'member'), ('workflow', 'workflow'), ('mission', 'mission'), ('job', 'job'), ('attempt', 'attempt')], max_length=10)),
                ('scope_id', models.CharField(max_length=64)),
                ('dimension', models.CharField(choices=[('tokens', 'tokens'), ('spend', 'spend'), ('wall_seconds', 'wall_seconds'), ('attempts', 'attempts'), ('tool_calls', 'tool_calls'), ('environment_seconds', 'environment_seconds'), ('storage_byte_hours', 'storage_byte_hours'), ('network_bytes', 'network_bytes'), ('review_minutes', 'review_minutes')], max_length=20)),
                ('limit', models.DecimalField(decimal_places=12, max_digits=24)),
                ('window', models.CharField(choices=[('none', 'none'), ('hour', 'hour'), ('day', 'day'), ('week', 'week'), ('month', 'month')], default='none', max_length=5)),
                ('timezone', models.CharField(default='UTC', max_length=63)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to='tenants.tenant')),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='Balance',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('window_start', models.DateTimeField()),
                ('held', models.DecimalField(decimal_places=12, default=0, max_digits=24)),
                ('spent', models.DecimalField(decimal_places=12, default=0, max_digits=24)),
                ('budget', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='balances', to='billing.budget')),
            ],
        ),
        migrations.CreateModel(
            name='CostRule',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('provider', models.CharField(max_length=60)),
                ('model', models.CharField(max_length=200)),
                ('starts_at', models.DateTimeField()),
                ('source', models.CharField(max_length=200)),
                ('note', models.TextField(blank=True)),
                ('long_context', models.CharField(choices=[('whole', 'whole request'), ('overflow', 'overflow')], default='whole', max_length=8)),
            ],
            options={
                'ordering': ['provider', 'model', '-starts_at', 'id'],
                'constraints': [models.UniqueConstraint(fields=('provider', 'model', 'starts_at'), name='cost_rule_version')],
            },
        ),
        migrations.CreateModel(
            name='LedgerEntry',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('dispatched_at', models.DateTimeField()),
                ('member_id', models.CharField(blank=True, max_length=64)),
                ('workflow_id', models.UUIDField()),
                ('mission_id', models.UUIDField(null=True)),
                ('job_id', models.UUIDField()),
                ('attempt_id', models.UUIDField()),
                ('executor_id', models.UUIDField(null=True)),
                ('provider', models.CharField(max_length=60)),
                ('model', models.CharField(max_length=200)),
                ('kind', models.CharField(choices=[('incurred', 'incurred'), ('wasted', 'wasted'), ('avoided', 'avoided'), ('unallocated', 'unallocated')], max_length=11)),
                ('meter', models.CharField(choices=[('input', 'input'), ('output', 'output'), ('cached_read', 'cached_read'), ('cached_write', 'cached_write'), ('reasoning', 'reasoning'), ('tool_calls', 'tool_calls'), ('external_api', 'external_api'), ('worker_seconds', 'worker_seconds'), ('environment', 'environment'), ('storage', 'storage'), ('network', 'network'), ('retrieval', 'retrieval'), ('evaluation', 'evaluation'), ('ci', 'ci'), ('delivery', 'delivery'), ('review_minutes', 'review_minutes')], max_length=20)),
                ('quantity', models.DecimalField(decimal_places=6, max_digits=24)),
                ('amount', models.DecimalField(decimal_places=12, max_digits=24)),
                ('source_event', models.CharField(default='attempt', max_length=100)),
                ('failure_class', models.CharField(blank=True, max_length=30)),
                ('flags', models.JSONField(default=list)),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='billing.costrule')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.workspace')),
            ],
            options={
                'ordering': ['at', 'id'],
            },
        ),
        migrations.CreateModel(
            name='Rate',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('meter', models.CharField(choices=[('input', 'input'), ('output', 'output'), ('cached_read', 'cached_read'), ('cached_write', 'cached_write'), ('reasoning', 'reasoning'), ('tool_calls', 'tool_calls'), ('external_api', 'external_api'), ('worker_seconds', 'worker_seconds'), ('environment', 'environment'), ('storage', 'storage'), ('network', 'network'), ('retrieval', 'retrieval'), ('evaluation', 'evaluation'), ('ci', 'ci'), ('delivery', 'delivery'), ('review_minutes', 'review_minutes')], max_length=20)),
                ('per', models.PositiveBigIntegerField(default=1000000)),
                ('amount', models.DecimalField(decimal_places=12, max_digits=24)),
                ('above_tokens', models.PositiveBigIntegerField(default=0)),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rates', to='billing.costrule')),
            ],
        ),
        migrations.CreateModel(
            name='Reservation',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('job_id', models.UUIDField()),
                ('workflow_id', models.UUIDField(null=True)),
                ('mission_id', models.UUIDField(null=True)),
                ('spend', models.DecimalField(decimal_places=12, max_digits=24)),
                ('tokens', models.PositiveBigIntegerField()),
                ('state', models.CharField(choices=[('open', 'open'), ('settled', 'settled'), ('released', 'released')], default='open', max_length=8)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('expires_at', models.DateTimeField()),
                ('closed_at', models.DateTimeField(null=True)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.tenant')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='ReservationLine',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('window_start', models.DateTimeField()),
                ('amount', models.DecimalField(decimal_places=12, max_digits=24)),
                ('budget', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='billing.budget')),
                ('reservation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='lines', to='billing.reservation')),
            ],
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.UniqueConstraint(fields=('scope', 'scope_id', 'tenant', 'dimension', 'window'), name='budget_of_scope'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(('limit__gte', 0)), name='budget_limit_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(('scope__in', ['tenant', 'workspace', 'member', 'workflow', 'mission', 'job', 'attempt'])), name='budget_scope_known'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(('dimension__in', ['tokens', 'spend', 'wall_seconds', 'attempts', 'tool_calls', 'environment_seconds', 'storage_byte_hours', 'network_bytes', 'review_minutes'])), name='budget_dimension_known'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(('window__in', ['none', 'hour', 'day', 'week', 'month'])), name='budget_window_known'),
        ),
        migrations.AddConstraint(
            model_name='balance',
            constraint=models.UniqueConstraint(fields=('budget', 'window_start'), name='balance_once'),
        ),
        migrations.AddConstraint(
            model_name='balance',
            constraint=models.CheckConstraint(condition=models.Q(('held__gte', 0)), name='balance_held_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='balance',
            constraint=models.CheckConstraint(condition=models.Q(('spent__gte', 0)), name='balance_spent_not_negative'),
        ),
        migrations.AddIndex(
            model_name='ledgerentry',
            index=models.Index(fields=['tenant', 'dispatched_at'], name='ledger_tenant_dispatched'),
        ),
        migrations.AddIndex(
            model_name='ledgerentry',
            index=models.Index(fields=['job_id'], name='ledger_job'),
        ),
        migrations.AddConstraint(
            model_name='ledgerentry',
            constraint=models.UniqueConstraint(fields=('attempt_id', 'meter', 'source_event'), name='ledger_once'),
        ),
        migrations.AddConstraint(
            model_name='ledgerentry',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['incurred', 'wasted', 'avoided', 'unallocated'])), name='ledger_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='ledgerentry',
            constraint=models.CheckConstraint(condition=models.Q(('meter__in', ['input', 'output', 'cached_read', 'cached_write', 'reasoning', 'tool_calls', 'external_api', 'worker_seconds', 'environment', 'storage', 'network', 'retrieval', 'evaluation', 'ci', 'delivery', 'review_minutes'])), name='ledger_meter_known'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.UniqueConstraint(fields=('rule', 'meter', 'above_tokens'), name='rate_once'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', 0)), name='rate_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.CheckConstraint(condition=models.Q(('per__gte', 1)), name='rate_per_positive'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.CheckConstraint(condition=models.Q(('meter__in', ['input', 'output', 'cached_read', 'cached_write', 'reasoning', 'tool_calls', 'external_api', 'worker_seconds', 'environment', 'storage', 'network', 'retrieval', 'evaluation', 'ci', 'delivery', 'review_minutes'])), name='rate_meter_known'),
        ),
        migrations.AddIndex(
            model_name='reservation',
            index=models.Index(condition=models.Q(('state', 'open')), fields=['expires_at'], name='reservation_open_expiry'),
        ),
        migrations.AddConstraint(
            model_name='reservation',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'open')), fields=('job_id',), name='one_open_reservation_a_job'),
        ),
        migrations.AddConstraint(
            model_name='reservation',
            constraint=models.CheckConstraint(condition=models.Q(('spend__gte', 0)), name='reservation_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='reservation',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('closed_at', None), ('state', 'open')), models.Q(('state__in', ['settled', 'released']), ('closed_at__isnull', False)), _connector='OR'), name='reservation_closed_when_not_open'),
        ),
        migrations.AddConstraint(
            model_name='reservationline',
            constraint=models.UniqueConstraint(fields=('reservation', 'budget'), name='line_once'),
        ),
        migrations.AddConstraint(
            model_name='reservationline',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', 0)), name='line_not_negative'),
        ),
        migrations.RunSQL(
            """
            CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON billing_ledgerentry
            FOR EACH ROW EXECUTE FUNCTION telemachus_append_only();
            """,
            "DROP TRIGGER append_only ON billing_ledgerentry;",
        ),
        migrations.RunSQL(
            """
            CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON billing_costrule
            FOR EACH ROW EXECUTE FUNCTION telemachus_append_only();
            """,
            "DROP TRIGGER append_only ON billing_costrule;",
        ),
        migrations.RunSQL(
            """
            CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON billing_rate
            FOR EACH ROW EXECUTE FUNCTION telemachus_append_only();
            """,
            "DROP TRIGGER append_only ON billing_rate;",
        ),
    ]

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
import tenants.ids
from django.utils import timezone
from django.db import migrations, models


from scheduling.core.policy.document import to_dict
from scheduling.core.policy.settings import Policy


def publish_first_policy(apps, schema_editor):
    """Policy 1: the defaults, written out, so that later defaults do not change it."""
    apps.get_model("scheduling", "PolicyVersion").objects.create(
        number=1,
        state="active",
        body=to_dict(Policy()),
        note="The defaults.",
        author="system",
        published_at=timezone.now(),
    )


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.RunSQL(
            "CREATE SEQUENCE scheduling_job_arrival AS bigint;",
            "DROP SEQUENCE scheduling_job_arrival;",
        ),
        migrations.CreateModel(
            name='GovernorLease',
            fields=[
                ('name', models.CharField(max_length=30, primary_key=True, serialize=False)),
                ('holder', models.CharField(max_length=200)),
                ('epoch', models.PositiveBigIntegerField(default=0)),
                ('expires_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name='Mission',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=63)),
                ('name', models.CharField(max_length=200)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='missions', to='tenants.tenant')),
            ],
            options={
                'ordering': ['slug', 'id'],
            },
        ),
        migrations.CreateModel(
            name='PolicyVersion',
            fields=[
                ('number', models.PositiveIntegerField(primary_key=True, serialize=False)),
                ('state', models.CharField(choices=[('draft', 'draft'), ('active', 'active'), ('retired', 'retired')], max_length=8)),
                ('body', models.JSONField()),
                ('note', models.TextField()),
                ('author', models.CharField(max_length=200)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('published_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ['-number'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'active')), fields=('state',), name='one_active_policy'), models.CheckConstraint(condition=models.Q(('state__in', ['draft', 'active', 'retired'])), name='policy_state_known'), models.CheckConstraint(condition=models.Q(('state', 'draft'), ('published_at__isnull', False), _connector='OR'), name='policy_published_has_time')],
            },
        ),
        migrations.CreateModel(
            name='Pool',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=63, unique=True)),
                ('name', models.CharField(max_length=200)),
                ('budget', models.PositiveIntegerField()),
                ('reserve', models.PositiveIntegerField(default=0)),
            ],
            options={
                'ordering': ['slug', 'id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('reserve__lte', models.F('budget'))), name='pool_reserve_within_budget')],
            },
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('seq', models.BigIntegerField(db_default=django.db.models.expressions.RawSQL("nextval('scheduling_job_arrival')", []), editable=False, unique=True)),
                ('kind', models.CharField(max_length=30)),
                ('job_class', models.CharField(max_length=30)),
                ('risk', models.CharField(choices=[('low', 'low'), ('medium', 'medium'), ('high', 'high'), ('critical', 'critical')], default='low', max_length=8)),
                ('cost', models.PositiveIntegerField(null=True)),
                ('state', models.CharField(choices=[('denied', 'denied'), ('deferred', 'deferred'), ('queued', 'queued'), ('running', 'running'), ('waiting', 'waiting'), ('done', 'done'), ('failed', 'failed'), ('canceled', 'canceled'), ('expired', 'expired')], max_length=8)),
                ('paused', models.BooleanField(default=False)),
                ('cancel_requested', models.BooleanField(default=False)),
                ('reason', models.CharField(max_length=30)),
                ('outcome', models.CharField(choices=[('accepted', 'accepted'), ('rejected', 'rejected'), ('unreviewed', 'unreviewed')], default='unreviewed', max_length=10)),
                ('changed', models.BooleanField(default=True)),
                ('fence', models.PositiveIntegerField(default=0)),
                ('step', models.PositiveIntegerField(default=0)),
                ('tries', models.PositiveIntegerField(default=0)),
                ('max_attempts', models.PositiveIntegerField()),
                ('idempotent', models.BooleanField(default=True)),
                ('payload', models.JSONField()),
                ('result', models.JSONField(null=True)),
                ('error', models.JSONField(null=True)),
                ('model', models.CharField(blank=True, max_length=200)),
                ('region', models.CharField(blank=True, max_length=60)),
                ('labels', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=60), default=list, size=None)),
                ('keys', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), default=list, size=None)),
                ('input_tokens', models.PositiveBigIntegerField()),
                ('output_tokens', models.PositiveBigIntegerField()),
                ('expected_s', models.FloatField(null=True)),
                ('submitted_by', models.CharField(max_length=200)),
                ('submitted_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('deadline', models.DateTimeField(null=True)),
                ('wake_at', models.DateTimeField(null=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='tenants.tenant')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='tenants.workspace')),
                ('mission', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='scheduling.mission')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='scheduling.pool')),
            ],
            options={
                'ordering': ['-seq'],
            },
        ),
        migrations.CreateModel(
            name='Executor',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=63, unique=True)),
                ('kind', models.CharField(choices=[('local-model', 'local-model'), ('remote-model', 'remote-model'), ('cpu-node', 'cpu-node'), ('hpc-partition', 'hpc-partition'), ('k8s', 'k8s'), ('human', 'human'), ('simulated', 'simulated')], max_length=20)),
                ('provider', models.CharField(max_length=60)),
                ('endpoint', models.URLField(blank=True, max_length=500)),
                ('job_kinds', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=30), size=None)),
                ('models_offered', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), blank=True, default=list, size=None)),
                ('region', models.CharField(blank=True, max_length=60)),
                ('labels', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=60), blank=True, default=list, size=None)),
                ('slots', models.PositiveIntegerField()),
                ('weight', models.PositiveIntegerField(default=1)),
                ('enabled', models.BooleanField(default=True)),
                ('draining', models.BooleanField(default=False)),
                ('health', models.CharField(choices=[('ok', 'ok'), ('degraded', 'degraded'), ('down', 'down')], default='ok', max_length=8)),
                ('circuit', models.CharField(choices=[('closed', 'closed'), ('open', 'open'), ('half_open', 'half_open')], default='closed', max_length=9)),
                ('circuit_failures', models.PositiveIntegerField(default=0)),
                ('circuit_until', models.DateTimeField(blank=True, null=True)),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.tenant')),
                ('workspace', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='executors', to='scheduling.pool')),
            ],
            options={
                'ordering': ['slug', 'id'],
            },
        ),
        migrations.CreateModel(
            name='ServiceMemory',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('job_class', models.CharField(max_length=30)),
                ('turn', models.BigIntegerField(default=0)),
                ('used', models.BigIntegerField(default=0)),
                ('lifts', models.PositiveIntegerField(default=0)),
                ('top', models.BigIntegerField(default=0)),
                ('backlogged', models.BooleanField(default=False)),
                ('last_placed_at', models.DateTimeField(null=True)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='scheduling.pool')),
                ('tenant', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.tenant')),
                ('workspace', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Worker',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=200)),
                ('queues', models.JSONField()),
                ('threads', models.PositiveIntegerField()),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(fields=['seen_at'], name='worker_seen')],
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('fence', models.PositiveIntegerField()),
                ('step', models.PositiveIntegerField(default=0)),
                ('state', models.CharField(choices=[('dispatched', 'dispatched'), ('running', 'running'), ('stopping', 'stopping'), ('complete', 'complete'), ('interrupted', 'interrupted'), ('error', 'error'), ('canceled', 'canceled'), ('lost', 'lost'), ('preempted', 'preempted')], max_length=11)),
                ('cost', models.PositiveIntegerField()),
                ('charge', models.PositiveBigIntegerField()),
                ('charge_due', models.PositiveBigIntegerField(null=True)),
                ('job_class', models.CharField(max_length=30)),
                ('turn', models.BigIntegerField(null=True)),
                ('lifts', models.PositiveIntegerField(default=0)),
                ('workspace_lifts', models.PositiveIntegerField(default=0)),
                ('expected_s', models.FloatField()),
                ('eta_at', models.DateTimeField(null=True)),
                ('eta_finish', models.DateTimeField(null=True)),
                ('eta_low', models.DateTimeField(null=True)),
                ('eta_high', models.DateTimeField(null=True)),
                ('lease_until', models.DateTimeField()),
                ('sent_at', models.DateTimeField(null=True)),
                ('sends', models.PositiveIntegerField(default=0)),
                ('dispatched_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('error_class', models.CharField(blank=True, max_length=30)),
                ('message', models.CharField(blank=True, max_length=500)),
                ('usage', models.JSONField(null=True)),
                ('spend', models.DecimalField(decimal_places=12, max_digits=24, null=True)),
                ('executor', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='attempts', to='scheduling.executor')),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='scheduling.job')),
                ('worker', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='attempts', to='scheduling.worker')),
            ],
            options={
                'ordering': ['job', 'fence'],
            },
        ),
        migrations.CreateModel(
            name='Workflow',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=63)),
                ('name', models.CharField(max_length=200)),
                ('cost', models.PositiveIntegerField(default=1)),
                ('expected_s', models.FloatField(blank=True, null=True)),
                ('job_class', models.CharField(blank=True, max_length=30)),
                ('capability', models.CharField(blank=True, max_length=60)),
                ('risk', models.CharField(choices=[('low', 'low'), ('medium', 'medium'), ('high', 'high'), ('critical', 'critical')], default='low', max_length=8)),
                ('needs_review', models.BooleanField(default=False)),
                ('max_running', models.PositiveIntegerField(blank=True, null=True)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='workflows', to='scheduling.pool')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='workflows', to='tenants.tenant')),
            ],
            options={
                'ordering': ['slug', 'id'],
            },
        ),
        migrations.AddField(
            model_name='job',
            name='workflow',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='scheduling.workflow'),
        ),
        migrations.CreateModel(
            name='IdempotencyRecord',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=255)),
                ('fingerprint', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('body', models.JSONField(null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['created_at'], name='idempotency_age')],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'key'), name='idempotency_key_once')],
            },
        ),
        migrations.CreateModel(
            name='Decision',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('verdict', models.CharField(choices=[('admitted', 'admitted'), ('queued', 'queued'), ('deferred', 'deferred'), ('denied', 'denied')], max_length=8)),
                ('reason', models.CharField(max_length=30)),
                ('sentence', models.TextField()),
                ('policy', models.PositiveIntegerField()),
                ('control', models.PositiveBigIntegerField()),
                ('reservation_id', models.UUIDField(null=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('retry_at', models.DateTimeField(null=True)),
                ('place', models.PositiveIntegerField(null=True)),
                ('eta', models.DateTimeField(null=True)),
                ('alternatives', models.JSONField(default=list)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='decisions', to='scheduling.job')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(fields=['job', 'id'], name='decision_of_job')],
                'constraints': [models.CheckConstraint(condition=models.Q(('verdict__in', ['admitted', 'queued', 'deferred', 'denied'])), name='decision_verdict_known')],
            },
        ),
        migrations.CreateModel(
            name='JobEvent',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('attempt_id', models.UUIDField(null=True)),
                ('event', models.CharField(max_length=30)),
                ('reason', models.CharField(blank=True, max_length=30)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('data', models.JSONField(default=dict)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='scheduling.job')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.tenant')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(fields=['job', 'id'], name='event_of_job'), models.Index(fields=['tenant', '-id'], name='event_of_tenant')],
            },
        ),
        migrations.AddConstraint(
            model_name='mission',
            constraint=models.UniqueConstraint(fields=('tenant', 'slug'), name='mission_slug_in_tenant'),
        ),
        migrations.AddConstraint(
            model_name='executor',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['local-model', 'remote-model', 'cpu-node', 'hpc-partition', 'k8s', 'human', 'simulated'])), name='executor_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='executor',
            constraint=models.CheckConstraint(condition=models.Q(('health__in', ['ok', 'degraded', 'down'])), name='executor_health_known'),
        ),
        migrations.AddConstraint(
            model_name='executor',
            constraint=models.CheckConstraint(condition=models.Q(('circuit__in', ['closed', 'open', 'half_open'])), name='executor_circuit_known'),
        ),
        migrations.AddConstraint(
            model_name='executor',
            constraint=models.CheckConstraint(condition=models.Q(('weight__gte', 1)), name='executor_weight_positive'),
        ),
        migrations.AddConstraint(
            model_name='executor',
            constraint=models.CheckConstraint(condition=models.Q(('circuit', 'closed'), ('circuit_until__isnull', False), _connector='OR'), name='executor_open_circuit_has_end'),
        ),
        migrations.AddConstraint(
            model_name='servicememory',
            constraint=models.UniqueConstraint(fields=('pool', 'job_class', 'tenant', 'workspace'), name='memory_once', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='servicememory',
            constraint=models.CheckConstraint(condition=models.Q(('used__gte', 0)), name='memory_used_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='servicememory',
            constraint=models.CheckConstraint(condition=models.Q(('tenant__isnull', False), ('workspace', None), _connector='OR'), name='memory_workspace_has_tenant'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(condition=models.Q(('state__in', ['dispatched', 'running', 'stopping'])), fields=['worker', 'lease_until'], name='attempt_live'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(condition=models.Q(('charge_due__isnull', False)), fields=['job'], name='attempt_correction'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(fields=['executor', '-ended_at'], name='attempt_of_executor'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(fields=('job', 'fence'), name='attempt_fence_once'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ['dispatched', 'running', 'stopping'])), fields=('job',), name='one_live_attempt_a_job'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['dispatched', 'running', 'stopping', 'complete', 'interrupted', 'error', 'canceled', 'lost', 'preempted'])), name='attempt_state_known'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.CheckConstraint(condition=models.Q(('fence__gte', 1)), name='attempt_fence_positive'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.CheckConstraint(condition=models.Q(('cost__gte', 1)), name='attempt_cost_positive'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state__in', ['dispatched', 'running', 'stopping']), ('ended_at', None)), models.Q(models.Q(('state__in', ['dispatched', 'running', 'stopping']), _negated=True), ('ended_at__isnull', False)), _connector='OR'), name='attempt_ended_has_end'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state__in', ['running', 'stopping', 'complete']), _negated=True), ('started_at__isnull', False), _connector='OR'), name='attempt_running_has_start'),
        ),
        migrations.AddConstraint(
            model_name='workflow',
            constraint=models.UniqueConstraint(fields=('tenant', 'slug'), name='workflow_slug_in_tenant'),
        ),
        migrations.AddConstraint(
            model_name='workflow',
            constraint=models.CheckConstraint(condition=models.Q(('cost__gte', 1)), name='workflow_cost_positive'),
        ),
        migrations.AddConstraint(
            model_name='workflow',
            constraint=models.CheckConstraint(condition=models.Q(('expected_s', None), ('expected_s__gt', 0), _connector='OR'), name='workflow_expected_s'),
        ),
        migrations.AddConstraint(
            model_name='workflow',
            constraint=models.CheckConstraint(condition=models.Q(('risk__in', ['low', 'medium', 'high', 'critical'])), name='workflow_risk_known'),
        ),
        migrations.AddConstraint(
            model_name='workflow',
            constraint=models.CheckConstraint(condition=models.Q(('max_running', None), ('max_running__gte', 1), _connector='OR'), name='workflow_max_running'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('changed', True)), fields=['seq'], name='job_changed'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('state__in', ['deferred', 'queued', 'running', 'waiting'])), fields=['seq'], name='job_live'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('wake_at__isnull', False)), fields=['wake_at'], name='job_wakes'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['tenant', '-seq'], name='job_of_tenant'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['workspace', '-seq'], name='job_of_workspace'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['workflow', '-seq'], name='job_of_workflow'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('state__in', ['deferred', 'queued', 'waiting'])), fields=['tenant', 'workspace'], name='job_backlog'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['denied', 'deferred', 'queued', 'running', 'waiting', 'done', 'failed', 'canceled', 'expired'])), name='job_state_known'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('cost', None), ('cost__gte', 1), _connector='OR'), name='job_cost'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('max_attempts__gte', 1)), name='job_max_attempts'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('expected_s', None), ('expected_s__gte', 0), _connector='OR'), name='job_expected_s'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('outcome__in', ['accepted', 'rejected', 'unreviewed'])), name='job_outcome_known'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state__in', ['canceled', 'denied', 'done', 'expired', 'failed']), ('finished_at__isnull', False)), models.Q(('state__in', ['deferred', 'queued', 'running', 'waiting']), ('finished_at', None)), _connector='OR'), name='job_ended_has_end'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state', 'running'), _negated=True), ('fence__gte', 1), _connector='OR'), name='job_running_has_fence'),
        ),
        migrations.RunSQL(
            """
            CREATE TRIGGER append_only BEFORE UPDATE ON scheduling_decision
            FOR EACH ROW EXECUTE FUNCTION telemachus_append_only();
            """,
            "DROP TRIGGER append_only ON scheduling_decision;",
        ),
        migrations.RunSQL(
            """
            CREATE TRIGGER append_only BEFORE UPDATE ON scheduling_jobevent
            FOR EACH ROW EXECUTE FUNCTION telemachus_append_only();
            """,
            "DROP TRIGGER append_only ON scheduling_jobevent;",
        ),
        migrations.RunSQL(
            """
            CREATE TRIGGER append_only BEFORE UPDATE ON scheduling_policyversion
            FOR EACH ROW WHEN (
                OLD.state <> 'draft'
                AND (OLD.body, OLD.number, OLD.note, OLD.author)
                    IS DISTINCT FROM (NEW.body, NEW.number, NEW.note, NEW.author)
            ) EXECUTE FUNCTION telemachus_append_only();
            """,
            "DROP TRIGGER append_only ON scheduling_policyversion;",
        ),
        migrations.RunPython(publish_first_policy, migrations.RunPython.noop),
    ]

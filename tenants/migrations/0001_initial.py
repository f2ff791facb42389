import django.db.models.deletion
import django.db.models.functions.datetime
import tenants.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(
            """
            CREATE FUNCTION telemachus_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                RAISE EXCEPTION '% is append-only: write a new row instead of %',
                    TG_TABLE_NAME, lower(TG_OP) USING ERRCODE = 'restrict_violation';
            END $$;
            """,
            "DROP FUNCTION telemachus_append_only();",
        ),
        migrations.CreateModel(
            name='ControlClock',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('number', models.PositiveBigIntegerField(default=0)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='control_clock_is_one_row')],
            },
        ),
        migrations.CreateModel(
            name='Tenant',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=63, unique=True)),
                ('name', models.CharField(max_length=200)),
                ('weight', models.PositiveIntegerField(default=1)),
                ('held', models.BooleanField(default=False)),
                ('max_running', models.PositiveIntegerField(blank=True, null=True)),
                ('timezone', models.CharField(default='UTC', max_length=63)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'ordering': ['slug', 'id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('weight__gte', 1), ('weight__lte', 1000)), name='tenant_weight_1_to_1000'), models.CheckConstraint(condition=models.Q(('max_running', None), ('max_running__gte', 1), _connector='OR'), name='tenant_max_running')],
            },
        ),
        migrations.CreateModel(
            name='Workspace',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=63)),
                ('name', models.CharField(max_length=200)),
                ('weight', models.PositiveIntegerField(default=1)),
                ('max_running', models.PositiveIntegerField(blank=True, null=True)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='workspaces', to='tenants.tenant')),
            ],
            options={
                'ordering': ['slug', 'id'],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('role', models.CharField(choices=[('operator', 'operator'), ('tenant_admin', 'tenant_admin'), ('submitter', 'submitter'), ('reviewer', 'reviewer'), ('billing_viewer', 'billing_viewer'), ('viewer', 'viewer')], max_length=20)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='tenants.tenant')),
                ('workspace', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='tenants.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.UUIDField(default=tenants.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('role', models.CharField(choices=[('operator', 'operator'), ('tenant_admin', 'tenant_admin'), ('submitter', 'submitter'), ('reviewer', 'reviewer'), ('billing_viewer', 'billing_viewer'), ('viewer', 'viewer')], default='submitter', max_length=20)),
                ('prefix', models.CharField(editable=False, max_length=16, unique=True)),
                ('hash', models.CharField(editable=False, max_length=64)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_keys', to='tenants.workspace')),
            ],
            options={
                'ordering': ['-created_at', 'id'],
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('number', models.PositiveBigIntegerField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('actor', models.CharField(max_length=200)),
                ('action', models.CharField(max_length=60)),
                ('target_type', models.CharField(max_length=40)),
                ('target_id', models.CharField(max_length=64)),
                ('before', models.JSONField()),
                ('after', models.JSONField()),
                ('reason', models.TextField()),
                ('tenant', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
            ],
            options={
                'ordering': ['-number'],
                'indexes': [models.Index(fields=['tenant', '-number'], name='audit_by_tenant'), models.Index(fields=['target_type', 'target_id'], name='audit_by_target')],
            },
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.UniqueConstraint(fields=('tenant', 'slug'), name='workspace_slug_in_tenant'),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.CheckConstraint(condition=models.Q(('weight__gte', 1), ('weight__lte', 1000)), name='workspace_weight_1_to_1000'),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.CheckConstraint(condition=models.Q(('max_running', None), ('max_running__gte', 1), _connector='OR'), name='workspace_max_running'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(fields=('user', 'tenant', 'workspace', 'role'), name='membership_once', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ['operator', 'tenant_admin', 'submitter', 'reviewer', 'billing_viewer', 'viewer'])), name='membership_role_known'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('role', 'operator'), ('tenant', None), ('workspace', None)), models.Q(models.Q(('role', 'operator'), _negated=True), ('tenant__isnull', False)), _connector='OR'), name='membership_operator_has_no_tenant'),
        ),
        migrations.AddConstraint(
            model_name='apikey',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ['tenant_admin', 'submitter', 'reviewer', 'billing_viewer', 'viewer'])), name='api_key_is_no_operator'),
        ),
        migrations.RunSQL(
            """
            CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON tenants_auditentry
            FOR EACH ROW EXECUTE FUNCTION telemachus_append_only();
            """,
            "DROP TRIGGER append_only ON tenants_auditentry;",
        ),
        migrations.RunSQL(
            "INSERT INTO tenants_controlclock (id, number) VALUES (1, 0);", migrations.RunSQL.noop
        ),
    ]

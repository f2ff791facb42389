import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def join(apps, schema_editor):
    """Make the groups of the roles that are held, and let their holders in.

    The groups get their permissions after all migrations: until then these have no rows.
    """
    RoleGroup = apps.get_model("tenants", "RoleGroup")
    for held in apps.get_model("tenants", "Membership").objects.all():
        at = f"workspace {held.workspace_id}" if held.workspace_id else f"tenant {held.tenant_id}"
        group, _ = RoleGroup.objects.get_or_create(
            role=held.role,
            tenant_id=held.tenant_id,
            workspace_id=held.workspace_id,
            defaults={"name": f"{held.role} of {at}" if held.tenant_id else held.role},
        )
        group.user_set.add(held.user_id)


def part(apps, schema_editor):
    """Take the groups away; the memberships say who had which role."""
    names = apps.get_model("tenants", "RoleGroup").objects.values_list("name", flat=True)
    apps.get_model("auth", "Group").objects.filter(name__in=list(names)).delete()


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('tenants', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='tenant',
            options={'ordering': ['slug', 'id'], 'permissions': [('view', 'May see jobs, their order and their executors'), ('submit', 'May submit jobs, requeue them and move them between classes'), ('cancel', 'May cancel, pause and resume jobs'), ('review', 'May review outcomes'), ('costs', 'May see costs'), ('manage', 'May set weights and limits and read the audit'), ('chat_use', 'May submit chats'), ('tools_invoke', 'May submit tool calls'), ('flows_run', 'May submit flows'), ('tasks_run', 'May submit tasks'), ('ask_submitter', 'May ask for the classes of submitters'), ('ask_tenant_admin', 'May ask for the classes of tenant admins'), ('ask_operator', 'May ask for the classes of operators'), ('operate', 'Operates the whole: all of these, everywhere')]},
        ),
        migrations.AlterModelOptions(
            name='workspace',
            options={'ordering': ['slug', 'id'], 'permissions': [('view', 'May see jobs, their order and their executors'), ('submit', 'May submit jobs, requeue them and move them between classes'), ('cancel', 'May cancel, pause and resume jobs'), ('review', 'May review outcomes'), ('costs', 'May see costs'), ('manage', 'May set weights and limits and read the audit'), ('chat_use', 'May submit chats'), ('tools_invoke', 'May submit tool calls'), ('flows_run', 'May submit flows'), ('tasks_run', 'May submit tasks'), ('ask_submitter', 'May ask for the classes of submitters'), ('ask_tenant_admin', 'May ask for the classes of tenant admins'), ('ask_operator', 'May ask for the classes of operators'), ('operate', 'Operates the whole: all of these, everywhere')]},
        ),
        migrations.CreateModel(
            name='RoleGroup',
            fields=[
                ('group_ptr', models.OneToOneField(auto_created=True, on_delete=django.db.models.deletion.CASCADE, parent_link=True, primary_key=True, serialize=False, to='auth.group')),
                ('role', models.CharField(choices=[('operator', 'operator'), ('tenant_admin', 'tenant_admin'), ('submitter', 'submitter'), ('reviewer', 'reviewer'), ('billing_viewer', 'billing_viewer'), ('viewer', 'viewer')], max_length=20)),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='role_groups', to='tenants.tenant')),
                ('workspace', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='role_groups', to='tenants.workspace')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'workspace', 'role'), name='role_group_once', nulls_distinct=False), models.CheckConstraint(condition=models.Q(models.Q(('role', 'operator'), ('tenant', None), ('workspace', None)), models.Q(models.Q(('role', 'operator'), _negated=True), ('tenant__isnull', False)), _connector='OR'), name='role_group_operator_has_no_tenant')],
            },
            bases=('auth.group',),
        ),
        migrations.CreateModel(
            name='TenantGroupPermission',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('content_object', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='tenants.tenant')),
                ('group', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='auth.group')),
                ('permission', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='auth.permission')),
            ],
            options={
                'abstract': False,
                'unique_together': {('group', 'permission', 'content_object')},
            },
        ),
        migrations.CreateModel(
            name='TenantUserPermission',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('content_object', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='tenants.tenant')),
                ('permission', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='auth.permission')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'unique_together': {('user', 'permission', 'content_object')},
            },
        ),
        migrations.CreateModel(
            name='WorkspaceGroupPermission',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('content_object', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='tenants.workspace')),
                ('group', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='auth.group')),
                ('permission', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='auth.permission')),
            ],
            options={
                'abstract': False,
                'unique_together': {('group', 'permission', 'content_object')},
            },
        ),
        migrations.CreateModel(
            name='WorkspaceUserPermission',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('content_object', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='tenants.workspace')),
                ('permission', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='auth.permission')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'unique_together': {('user', 'permission', 'content_object')},
            },
        ),
        migrations.RunPython(join, part),
    ]

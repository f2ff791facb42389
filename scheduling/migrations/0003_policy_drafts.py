from django.db import migrations


class Migration(migrations.Migration):
    """What is published stays: no field but the state changes, it is no draft again, nor deleted."""

    dependencies = [
        ('scheduling', '0002_fewer_indexes'),
    ]

    operations = [
        migrations.RunSQL(
            """
            DROP TRIGGER append_only ON scheduling_policyversion;
            CREATE TRIGGER append_only BEFORE UPDATE ON scheduling_policyversion
            FOR EACH ROW WHEN (
                OLD.state <> 'draft'
                AND (
                    NEW.state = 'draft'
                    OR (OLD.body, OLD.number, OLD.note, OLD.author, OLD.created_at, OLD.published_at)
                        IS DISTINCT FROM
                        (NEW.body, NEW.number, NEW.note, NEW.author, NEW.created_at, NEW.published_at)
                )
            ) EXECUTE FUNCTION telemachus_append_only();
            CREATE TRIGGER kept BEFORE DELETE ON scheduling_policyversion
            FOR EACH ROW WHEN (OLD.state <> 'draft') EXECUTE FUNCTION telemachus_append_only();
            """,
            """
            DROP TRIGGER kept ON scheduling_policyversion;
            DROP TRIGGER append_only ON scheduling_policyversion;
            CREATE TRIGGER append_only BEFORE UPDATE ON scheduling_policyversion
            FOR EACH ROW WHEN (
                OLD.state <> 'draft'
                AND (OLD.body, OLD.number, OLD.note, OLD.author)
                    IS DISTINCT FROM (NEW.body, NEW.number, NEW.note, NEW.author)
            ) EXECUTE FUNCTION telemachus_append_only();
            """,
        ),
    ]

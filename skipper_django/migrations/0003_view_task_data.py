"""A permission of its own for arguments, results and errors; no table changes."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("skipper_django", "0002_cluster_members"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="task",
            options={
                "default_permissions": ("view",),
                "permissions": (
                    ("view_task_data", "Can view arguments, results and errors of tasks"),
                ),
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
            },
        ),
    ]

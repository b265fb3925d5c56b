"""The table of tasks, its one hot index, its rule."""

from typing import Any

from django.db import migrations, models

import skipper_django.fields
from skipper_django.conf import table_name


def tune_vacuum(apps: Any, schema_editor: Any) -> None:
    """PostgreSQL: a queue's rows change often; dead ones must go before claims walk over them."""
    if schema_editor.connection.vendor == "postgresql":
        table = schema_editor.quote_name(table_name("scheduler_tasks"))
        schema_editor.execute(
            f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.01, "
            "autovacuum_vacuum_cost_delay = 0)"
        )


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "task_id",
                    skipper_django.fields.ExactCharField(max_length=255, verbose_name="task id"),
                ),
                (
                    "tenant",
                    skipper_django.fields.ExactCharField(max_length=100, verbose_name="tenant"),
                ),
                (
                    "queue_name",
                    skipper_django.fields.ExactCharField(max_length=100, verbose_name="queue"),
                ),
                ("lane", models.BigIntegerField(help_text="hash of tenant and queue")),
                ("bucket", models.SmallIntegerField(verbose_name="bucket")),
                ("slot", models.SmallIntegerField(help_text="bucket // 16")),
                (
                    "name",
                    skipper_django.fields.ExactCharField(
                        help_text="dotted path of the function", max_length=255, verbose_name="name"
                    ),
                ),
                (
                    "backend",
                    skipper_django.fields.ExactCharField(
                        help_text="alias in TASKS", max_length=100
                    ),
                ),
                ("args", skipper_django.fields.LongTextField(verbose_name="positional arguments")),
                ("kwargs", skipper_django.fields.LongTextField(verbose_name="keyword arguments")),
                (
                    "status",
                    models.SmallIntegerField(
                        choices=[
                            (0, "Scheduled"),
                            (1, "Ready"),
                            (2, "Running"),
                            (3, "Successful"),
                            (4, "Failed"),
                            (5, "Cancelled"),
                        ],
                        verbose_name="status",
                    ),
                ),
                (
                    "reason",
                    skipper_django.fields.ExactCharField(
                        max_length=32, null=True, verbose_name="reason"
                    ),
                ),
                ("priority", models.SmallIntegerField(verbose_name="priority")),
                ("ord", models.SmallIntegerField()),
                ("run_after", skipper_django.fields.InstantField(verbose_name="run after")),
                ("attempts", models.IntegerField(db_default=0, verbose_name="attempts")),
                ("lost_leases", models.IntegerField(db_default=0, verbose_name="lost leases")),
                ("lease_token", models.BigIntegerField(null=True)),
                (
                    "lease_expires_at",
                    skipper_django.fields.InstantField(null=True, verbose_name="lease expires at"),
                ),
                (
                    "worker_ids",
                    skipper_django.fields.LongTextField(null=True, verbose_name="workers"),
                ),
                ("enqueued_at", skipper_django.fields.InstantField(verbose_name="enqueued at")),
                (
                    "started_at",
                    skipper_django.fields.InstantField(null=True, verbose_name="started at"),
                ),
                (
                    "last_attempted_at",
                    skipper_django.fields.InstantField(null=True, verbose_name="last attempted at"),
                ),
                (
                    "finished_at",
                    skipper_django.fields.InstantField(null=True, verbose_name="finished at"),
                ),
                ("result", skipper_django.fields.LongTextField(null=True, verbose_name="result")),
                ("errors", skipper_django.fields.LongTextField(null=True, verbose_name="errors")),
            ],
            options={
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
                "db_table": table_name("scheduler_tasks"),
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        fields=["lane", "status", "slot", "ord", "run_after", "id", "bucket"],
                        name=table_name("tasks_hot"),
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("task_id", "tenant"), name=table_name("task_id_unique")
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("lease_expires_at__isnull", False), ("status", 2)),
                            models.Q(
                                models.Q(("status", 2), _negated=True),
                                ("lease_expires_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name=table_name("lease_if_run"),
                    ),
                ],
            },
        ),
        migrations.RunPython(tune_vacuum, migrations.RunPython.noop),
    ]

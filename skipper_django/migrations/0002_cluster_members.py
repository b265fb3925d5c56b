"""The members of the cluster."""

from django.db import migrations, models

import skipper_django.fields
from skipper_django.conf import table_name


class Migration(migrations.Migration):
    dependencies = [
        ("skipper_django", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Member",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "tenant",
                    skipper_django.fields.ExactCharField(max_length=100, verbose_name="tenant"),
                ),
                (
                    "member_id",
                    skipper_django.fields.ExactCharField(max_length=150, verbose_name="member"),
                ),
                ("incarnation", models.BigIntegerField(help_text="random, new with each start")),
                ("host", skipper_django.fields.ExactCharField(max_length=255, verbose_name="host")),
                ("host_key", skipper_django.fields.ExactCharField(max_length=255)),
                ("pid", models.BigIntegerField(verbose_name="process")),
                ("process_started", skipper_django.fields.ExactCharField(max_length=32)),
                ("started_at", skipper_django.fields.InstantField(verbose_name="started at")),
                ("heartbeat_at", skipper_django.fields.InstantField(verbose_name="heartbeat at")),
                (
                    "version",
                    skipper_django.fields.ExactCharField(max_length=32, verbose_name="version"),
                ),
                (
                    "queues",
                    skipper_django.fields.LongTextField(
                        help_text="one a line; empty: all", verbose_name="queues"
                    ),
                ),
                ("concurrency", models.IntegerField(verbose_name="concurrency")),
                (
                    "state",
                    models.SmallIntegerField(
                        choices=[(0, "Active"), (1, "Draining"), (2, "Dead")], verbose_name="state"
                    ),
                ),
                (
                    "fetch_mode",
                    skipper_django.fields.ExactCharField(max_length=16, verbose_name="fetch mode"),
                ),
                (
                    "reason",
                    skipper_django.fields.ExactCharField(max_length=32, verbose_name="reason"),
                ),
                ("range_start", models.SmallIntegerField(verbose_name="first bucket")),
                ("range_stop", models.SmallIntegerField(verbose_name="end of range")),
                ("running", models.IntegerField(verbose_name="running tasks")),
                ("claimed", models.BigIntegerField(verbose_name="claimed tasks")),
                ("stolen", models.BigIntegerField(verbose_name="stolen tasks")),
                ("lost_races", models.BigIntegerField(verbose_name="lost races")),
                ("partitioned_fetches", models.BigIntegerField(verbose_name="partitioned fetches")),
                ("whole_queue_fetches", models.BigIntegerField(verbose_name="whole-queue fetches")),
            ],
            options={
                "verbose_name": "cluster member",
                "verbose_name_plural": "cluster members",
                "db_table": table_name("cluster_members"),
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "member_id"), name=table_name("member_unique")
                    )
                ],
            },
        ),
    ]

"""The table of reports."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="ModuleReport",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("path", models.CharField(max_length=255, unique=True)),
                ("lines", models.PositiveIntegerField()),
                ("functions", models.PositiveIntegerField()),
                ("classes", models.PositiveIntegerField()),
                ("top_names", models.JSONField()),
            ],
        ),
    ]

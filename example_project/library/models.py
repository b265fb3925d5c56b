"""What the tasks of this app find out."""

from typing import ClassVar

from django.db import models


class ModuleReport(models.Model):
    """What is in one module of the standard library."""

    objects: ClassVar["models.Manager[ModuleReport]"]

    path = models.CharField(max_length=255, unique=True)
    lines = models.PositiveIntegerField()
    functions = models.PositiveIntegerField()
    classes = models.PositiveIntegerField()
    # Pairs of a name and how often the module uses it, most used first.
    top_names = models.JSONField()

    def __str__(self) -> str:
        return self.path

"""The reports in the admin."""

from typing import TYPE_CHECKING

from django.contrib import admin

from .models import ModuleReport

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[ModuleReport]
else:
    _ModelAdmin = admin.ModelAdmin


@admin.register(ModuleReport)
class ModuleReportAdmin(_ModelAdmin):
    list_display = ("path", "lines", "functions", "classes")
    search_fields = ("path",)
    ordering = ("-lines",)

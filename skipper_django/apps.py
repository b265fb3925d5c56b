"""The app: registers checks, loads the task modules of all apps, makes no query."""

from django.apps import AppConfig, apps
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class SkipperConfig(AppConfig):
    name = "skipper_django"
    verbose_name = _("Skipper task queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks, database_checks  # noqa: F401  (they register themselves)

        autodiscover_modules("tasks")
        if apps.is_installed("django_prometheus"):
            from . import metrics

            metrics.register()

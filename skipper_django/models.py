"""The table of tasks: columns, the one hot index, the rule that rows cannot break."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from .conf import table_name
from .core.membership import MemberState
from .core.states import TaskState
from .fields import ExactCharField, InstantField, LongTextField


class Task(models.Model):
    """One row of work. Rows are written by `store` only; read them as you like."""

    class State(models.IntegerChoices):
        SCHEDULED = TaskState.SCHEDULED.value, _("Scheduled")
        READY = TaskState.READY.value, _("Ready")
        RUNNING = TaskState.RUNNING.value, _("Running")
        SUCCESSFUL = TaskState.SUCCESSFUL.value, _("Successful")
        FAILED = TaskState.FAILED.value, _("Failed")
        CANCELLED = TaskState.CANCELLED.value, _("Cancelled")

    id = models.BigAutoField(primary_key=True)
    task_id = ExactCharField(_("task id"), max_length=255)
    tenant = ExactCharField(_("tenant"), max_length=100)
    queue_name = ExactCharField(_("queue"), max_length=100)
    lane = models.BigIntegerField(help_text=_("hash of tenant and queue"))
    bucket = models.SmallIntegerField(_("bucket"))
    slot = models.SmallIntegerField(help_text=_("bucket // 16"))

    name = ExactCharField(_("name"), max_length=255, help_text=_("dotted path of the function"))
    backend = ExactCharField(max_length=100, help_text=_("alias in TASKS"))
    args = LongTextField(_("positional arguments"))
    kwargs = LongTextField(_("keyword arguments"))

    status = models.SmallIntegerField(_("status"), choices=State.choices)
    reason = ExactCharField(_("reason"), max_length=32, null=True)
    priority = models.SmallIntegerField(_("priority"))
    # The order key: -priority while READY, else 0, so that SCHEDULED rows sort by run_after.
    ord = models.SmallIntegerField()
    run_after = InstantField(_("run after"))

    attempts = models.IntegerField(_("attempts"), db_default=0)
    lost_leases = models.IntegerField(_("lost leases"), db_default=0)
    lease_token = models.BigIntegerField(null=True)
    lease_expires_at = InstantField(_("lease expires at"), null=True)
    # One member id a line, one line an attempt; the last is who holds or held the lease.
    worker_ids = LongTextField(_("workers"), null=True)

    enqueued_at = InstantField(_("enqueued at"))
    started_at = InstantField(_("started at"), null=True)
    last_attempted_at = InstantField(_("last attempted at"), null=True)
    finished_at = InstantField(_("finished at"), null=True)
    result = LongTextField(_("result"), null=True)
    errors = LongTextField(_("errors"), null=True)

    class Meta:
        db_table = table_name("scheduler_tasks")
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        default_permissions = ("view",)
        permissions = (("view_task_data", _("Can view arguments, results and errors of tasks")),)
        constraints = [
            models.UniqueConstraint(
                fields=["task_id", "tenant"], name=table_name("task_id_unique")
            ),
            models.CheckConstraint(
                condition=Q(status=TaskState.RUNNING.value, lease_expires_at__isnull=False)
                | (~Q(status=TaskState.RUNNING.value) & Q(lease_expires_at__isnull=True)),
                name=table_name("lease_if_run"),
            ),
        ]
        indexes = [
            models.Index(
                fields=["lane", "status", "slot", "ord", "run_after", "id", "bucket"],
                name=table_name("tasks_hot"),
            ),
        ]

    def __str__(self) -> str:
        return str(self.task_id)


class Member(models.Model):
    """One worker process of the cluster. Rows are written by `store` only."""

    class State(models.IntegerChoices):
        ACTIVE = MemberState.ACTIVE.value, _("Active")
        DRAINING = MemberState.DRAINING.value, _("Draining")
        DEAD = MemberState.DEAD.value, _("Dead")

    id = models.BigAutoField(primary_key=True)
    tenant = ExactCharField(_("tenant"), max_length=100)
    member_id = ExactCharField(_("member"), max_length=150)
    incarnation = models.BigIntegerField(help_text=_("random, new with each start"))
    host = ExactCharField(_("host"), max_length=255)
    host_key = ExactCharField(max_length=255)
    pid = models.BigIntegerField(_("process"))
    process_started = ExactCharField(max_length=32)
    started_at = InstantField(_("started at"))
    heartbeat_at = InstantField(_("heartbeat at"))
    version = ExactCharField(_("version"), max_length=32)

    queues = LongTextField(_("queues"), help_text=_("one a line; empty: all"))
    concurrency = models.IntegerField(_("concurrency"))
    state = models.SmallIntegerField(_("state"), choices=State.choices)
    fetch_mode = ExactCharField(_("fetch mode"), max_length=16)
    reason = ExactCharField(_("reason"), max_length=32)
    range_start = models.SmallIntegerField(_("first bucket"))
    range_stop = models.SmallIntegerField(_("end of range"))

    running = models.IntegerField(_("running tasks"))
    claimed = models.BigIntegerField(_("claimed tasks"))
    stolen = models.BigIntegerField(_("stolen tasks"))
    lost_races = models.BigIntegerField(_("lost races"))
    partitioned_fetches = models.BigIntegerField(_("partitioned fetches"))
    whole_queue_fetches = models.BigIntegerField(_("whole-queue fetches"))

    class Meta:
        db_table = table_name("cluster_members")
        verbose_name = _("cluster member")
        verbose_name_plural = _("cluster members")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "member_id"], name=table_name("member_unique")
            ),
        ]

    def __str__(self) -> str:
        return str(self.member_id)

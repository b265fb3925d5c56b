"""Signals beside those of the Tasks framework (task_enqueued, task_started, task_finished)."""

from django.dispatch import Signal

# An attempt failed and the task will run again. Arguments: task_result, delay (seconds).
task_retrying = Signal()

# A worker's lease on a task ended before its outcome was stored. Arguments: task_id, name.
lease_lost = Signal()

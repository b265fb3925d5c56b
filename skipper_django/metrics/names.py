"""Every metric there is: name, kind, labels, meaning. docs/metrics.md lists them, too."""

from dataclasses import dataclass

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
)  # fmt: skip
TASKS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)


@dataclass(frozen=True, slots=True)
class Metric:
    name: str  # without the _total of a counter
    kind: str
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()

    @property
    def exposed_name(self) -> str:
        return f"{self.name}_total" if self.kind == COUNTER else self.name


def _counter(name: str, labels: str, text: str) -> Metric:
    return Metric(name, COUNTER, tuple(labels.split()), text)


def _gauge(name: str, labels: str, text: str) -> Metric:
    return Metric(name, GAUGE, tuple(labels.split()), text)


def _seconds(name: str, labels: str, text: str) -> Metric:
    return Metric(name, HISTOGRAM, tuple(labels.split()), text, SECONDS)


# Fetches and claims

FETCHES = _counter("skipper_scheduler_fetches", "tenant mode", "Fetches, by what they look at.")
FALLBACKS = _counter(
    "skipper_scheduler_fallbacks", "tenant reason", "Fetches of the whole queue, by reason."
)
FETCH_ERRORS = _counter(
    "skipper_scheduler_fetch_errors", "tenant error", "Fetches that failed, by exception class."
)
CLAIM_SECONDS = _seconds(
    "skipper_claim_seconds", "tenant", "One look for tasks and the claim of what it found."
)
CLAIMED = _counter("skipper_tasks_claimed", "tenant queue", "Tasks claimed, stolen ones included.")
STOLEN = _counter("skipper_tasks_stolen", "tenant queue", "Tasks claimed outside the own range.")
LOST_RACES = _counter(
    "skipper_claim_lost_races", "tenant", "Chosen tasks that another member claimed first."
)

# Tasks

FINISHED = _counter(
    "skipper_tasks_finished",
    "tenant queue task outcome reason",
    "Attempts by outcome: succeeded, retried, failed (with a reason), released, lost.",
)
TASK_SECONDS = _seconds("skipper_task_seconds", "tenant queue task", "How long attempts ran.")
WAIT_SECONDS = _seconds(
    "skipper_queue_wait_seconds", "tenant queue", "From the moment a task is due to its start."
)
SETTLE_TASKS = Metric(
    "skipper_settle_batch_tasks", HISTOGRAM, ("tenant",), "Outcomes stored together.", TASKS
)
SETTLE_SECONDS = _seconds("skipper_settle_seconds", "tenant", "Storing one batch of outcomes.")

# Leases and upkeep

RENEWED = _counter("skipper_leases_renewed", "tenant", "Renewals of leases.")
LOST = _counter("skipper_leases_lost", "tenant queue", "Leases lost before the outcome was stored.")
RECLAIMED = _counter(
    "skipper_tasks_reclaimed", "tenant", "Tasks taken back from lost workers and leases."
)
PROMOTED = _counter("skipper_tasks_promoted", "tenant", "SCHEDULED tasks made READY.")
PRUNED = _counter("skipper_tasks_pruned", "tenant", "Finished tasks deleted after retention.")

# The cluster as this member sees it

RANGE_START = _gauge(
    "skipper_member_range_start", "tenant member", "First bucket of the range; 0 without one."
)
RANGE_END = _gauge(
    "skipper_member_range_end", "tenant member", "End of the range, exclusive; 0 without one."
)
LIVE_SEEN = _gauge("skipper_member_live_seen", "tenant member", "Live members in its view.")
HEARTBEAT_SECONDS = _seconds("skipper_member_heartbeat_seconds", "tenant", "Heartbeat writes.")
LIST_SECONDS = _seconds("skipper_member_list_seconds", "tenant", "Reads of the member list.")
SLOTS = _gauge("skipper_member_slots", "tenant member", "How many tasks it runs at once.")
RUNNING = _gauge("skipper_member_running_tasks", "tenant member", "RUNNING tasks it holds.")

# The database

OUTAGES = _counter(
    "skipper_database_outages", "tenant activity", "Times the database became unavailable."
)
DATABASE_ERRORS = _counter(
    "skipper_database_errors", "tenant activity", "Tries that failed because it was unavailable."
)
CONTENTION = _counter(
    "skipper_database_contention",
    "tenant database",
    "Statements tried again because others held the rows, or SQLite's lock.",
)

# The command

PROCESSES = _gauge("skipper_worker_processes", "", "Worker processes of this command that run.")
DEATHS = _counter(
    "skipper_worker_process_deaths", "cause", "Worker processes that died: crashed, killed, stuck."
)
DROPPED = _counter(
    "skipper_metrics_dropped", "", "Series left out because the memory for metrics is full."
)

WORKER_METRICS = (
    *(FETCHES, FALLBACKS, FETCH_ERRORS, CLAIM_SECONDS, CLAIMED, STOLEN, LOST_RACES),
    *(FINISHED, TASK_SECONDS, WAIT_SECONDS, SETTLE_TASKS, SETTLE_SECONDS),
    *(RENEWED, LOST, RECLAIMED, PROMOTED, PRUNED),
    *(RANGE_START, RANGE_END, LIVE_SEEN, HEARTBEAT_SECONDS, LIST_SECONDS, SLOTS, RUNNING),
    *(OUTAGES, DATABASE_ERRORS, CONTENTION, PROCESSES, DEATHS, DROPPED),
)

# The queue as a whole, in the web process

READY = _gauge("skipper_queue_ready_tasks_capped", "tenant queue", "READY, at most 10,000.")
SCHEDULED = _gauge("skipper_queue_scheduled_tasks_capped", "tenant queue", "The same: SCHEDULED.")
QUEUE_RUNNING = _gauge("skipper_queue_running_tasks_capped", "tenant queue", "The same: RUNNING.")
FAILED = _gauge("skipper_queue_failed_tasks_capped", "tenant queue", "The same: FAILED.")
OLDEST = _gauge(
    "skipper_queue_oldest_ready_seconds", "tenant queue", "How long the oldest has been READY."
)
LIVE = _gauge("skipper_cluster_live_members", "tenant", "Members that beat within the window.")
SCRAPE_ERRORS = _counter(
    "skipper_queue_scrape_errors", "tenant", "Scrapes that left these out: no answer to them."
)

QUEUE_METRICS = (READY, SCHEDULED, QUEUE_RUNNING, FAILED, OLDEST, LIVE, SCRAPE_ERRORS)
BY_NAME = {metric.name: metric for metric in (*WORKER_METRICS, *QUEUE_METRICS)}

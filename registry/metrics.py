"""The metrics of the service, of prometheus-client.

With several workers, each process counts in a file of the directory PROMETHEUS_MULTIPROC_DIR, which
`registry.commands.serve` creates before anything imports this module. What a worker has counted
remains in the sums after its end, except gauges.
"""

import os
import platform
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.multiprocess import MultiProcessCollector

from registry import __version__
from registry.program import METRICS_VARIABLE

disable_created_metrics()  # type: ignore[no-untyped-call]

_LATENCIES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)

_OF_PROCESS = CollectorRegistry()

_counter = partial(Counter, registry=_OF_PROCESS)
_gauge = partial(Gauge, multiprocess_mode="livesum", registry=_OF_PROCESS)
_histogram = partial(Histogram, buckets=_LATENCIES, registry=_OF_PROCESS)


def registry_of_service() -> CollectorRegistry:
    """Return the metrics of this process, or of all processes if the service has workers."""
    if METRICS_VARIABLE not in os.environ:
        return _OF_PROCESS
    summed = CollectorRegistry(support_collectors_without_names=True)  # for `name[]`
    MultiProcessCollector(summed)  # type: ignore[no-untyped-call]
    return summed


REQUESTS = _histogram(
    "registry_http_request_duration_seconds",
    "Time from the head of a request to the end of its response.",
    ("route", "method", "status"),
)
REQUESTS_IN_PROGRESS = _gauge(
    "registry_http_requests_in_progress", "Requests whose response has not ended."
)
BULKHEAD_IN_PROGRESS = _gauge(
    "registry_bulkhead_in_progress", "Operations in progress, by class.", ("bulkhead",)
)
BULKHEAD_WAITING = _gauge(
    "registry_bulkhead_waiting", "Operations in the queue of their class.", ("bulkhead",)
)
BULKHEAD_REFUSALS = _counter(
    "registry_bulkhead_refusals_total",
    "Operations refused with 503 as the limit of their class was reached.",
    ("bulkhead", "reason"),
)
BATCH_SIZE = _histogram(
    "registry_batch_size",
    "Operations that share a round trip to the database.",
    ("batch",),
    buckets=_SIZES,
)
BATCH_WAIT = _histogram(
    "registry_batch_wait_seconds",
    "Time that the first operation of a batch has waited for the batch to be sent.",
    ("batch",),
)
COMMANDS = _histogram(
    "registry_mongodb_command_duration_seconds",
    "Time from sending a command to MongoDB to its reply, or of a whole transaction.",
    ("command", "outcome"),
)
CONNECTIONS = _gauge("registry_mongodb_connections", "Open connections to MongoDB.")
CONNECTIONS_IN_USE = _gauge(
    "registry_mongodb_connections_in_use", "Connections to MongoDB that a command uses."
)
EVENT_LOOP_LAG = _histogram(
    "registry_event_loop_lag_seconds",
    "Delay of a timer of the event loop, measured four times per second.",
)
LOG_LINES_DROPPED = _counter(
    "registry_log_lines_dropped_total",
    "Log lines that were not written because standard error was not read in time.",
)
WORKERS = _gauge("registry_workers", "Processes that serve requests.")
WORKERS_READY = _gauge(
    "registry_workers_ready", "Processes that serve requests and reach the primary of the database."
)
LAST_BACKUP = _gauge(
    "registry_last_backup_timestamp_seconds",
    "Time at which the last complete backup began, 0 without one.",
    multiprocess_mode="livemax",
)
DISK_FREE = _gauge(
    "registry_disk_free_bytes",
    "Free space for the data of the embedded mongod.",
    ("directory",),
    multiprocess_mode="livemin",
)
CPU_SECONDS = _counter(
    "process_cpu_seconds_total", "Processor time of the processes that serve requests."
)
MEMORY = _gauge(
    "process_resident_memory_bytes", "Memory of the processes that serve requests, on Linux."
)
BUILD = _gauge(
    "registry_build_info",
    "The version of the service and of Python; the value is 1.",
    ("version", "python"),
    multiprocess_mode="livemax",
)
BUILD.labels(__version__, platform.python_version()).set(1)

"""The size of the thread pool that runs motor's commands."""

import os

from registry.settings import CORES
from registry.start_error import StartError

_VARIABLE = "MOTOR_MAX_WORKERS"


def _set_size() -> int:
    """Return the size; motor reads it when it is imported, and offers no other way to set it."""
    size = os.environ.get(_VARIABLE) or str(50 * max(2, CORES))
    if not size.isdecimal() or int(size) == 0:
        raise StartError(f"{_VARIABLE}: {size!r} is not a positive integer")
    os.environ[_VARIABLE] = size
    return int(size)


THREADS = _set_size()
"""Threads, and connections for them.

At most 12 batches per type, 5 per link and 12 of past snapshots are in flight, 41 with two types,
and 8 unbatched lookups; of writes, two groups, one single command, and 16 requests that run alone.
Heavy queries, streams and large transactions, which may take seconds, have at most half. With
motor's default, five per core, ten slow queries block every write on two cores. Threads start on
demand.
"""

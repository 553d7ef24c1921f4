"""The size of the thread pool that runs motor's commands."""

from __future__ import annotations

import os

THREADS = 100
"""Threads, and connections for them.

In flight at the same time are at most 12 batches per type and 5 more per link, one transaction of
link writes (30 in all with two types), and 50 collection queries, which may take seconds each. The
other 20 are for what is short: deletions, atomic operations, id allocation, unbatched look-ups.
Motor's default, five threads per core, lets ten slow queries block every write on two cores.
Threads start on demand.
"""

# Motor reads this when it is imported, and offers no other way to set the size.
os.environ.setdefault("MOTOR_MAX_WORKERS", str(THREADS))

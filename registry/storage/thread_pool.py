"""The size of the thread pool that runs motor's commands."""

import os

THREADS = 100
"""Threads, and connections for them.

At most 12 batches per type, 5 per link and one of link writes are in flight: 30 with two types. 50
are for collection queries, which may take seconds; 20 for deletions, atomic operations, id
allocation, unbatched lookups, and records that are locked. With motor's default, five per core, ten
slow queries block every write on two cores. Threads start on demand.
"""

# Motor reads this when it is imported, and offers no other way to set the size.
os.environ.setdefault("MOTOR_MAX_WORKERS", str(THREADS))

"""The service, but requests wait for a minute: it refuses none, as the naive server does not.

256 lists, or 64 searches for text in a million persons, take longer than the wait of the service.
"""

from registry import capacity
from registry.__main__ import main

if __name__ == "__main__":
    capacity.QUEUE_SECONDS = 60.0
    main()

"""The log of each process."""

import logging


def log_to_stderr() -> None:
    """Send the log records of this process to standard error."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

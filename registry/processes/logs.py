"""The log of each process: its lines are bounded, and so is their number."""

import logging
from collections import Counter
from io import FileIO, TextIOWrapper
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO, TextIO, cast

from pythonjsonlogger.json import JsonFormatter

from registry.http import ACCESS_LOG
from registry.metrics import LOG_LINES_DROPPED
from registry.program import printable

_LINE = "%(asctime)s %(levelname)s %(message)s"

_MAX_BYTES = 500
"""The length of a line; tracebacks follow on further lines."""

_MAX_REPEATS = 100
_PERIOD_SECONDS = 10.0
"""The maximum number of lines with the same message template in one period."""

_MAX_QUEUED = 10_000
"""Lines that wait until standard error is read; further ones are dropped."""

_CLOSE_SECONDS = 1.0
"""How long the end of the process waits until the lines are written."""


def log_in_background(log_format: str) -> None:
    """Send the log records of this process to standard error. log_format: `text` or `json`.

    A thread writes them, so that the event loop never waits for the reader of standard error.
    """
    handler = BackgroundHandler(StderrHandler(log_format))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


class BackgroundHandler(logging.Handler):
    """Passes records to another handler on a thread; drops them when too many wait."""

    def __init__(self, target: logging.Handler) -> None:
        super().__init__()
        self._records: SimpleQueue[logging.LogRecord | None] = SimpleQueue()
        self._target = target
        self._dropped = 0
        self._reported = 0
        self._thread = Thread(target=self._write, daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the record to the thread."""
        if self._records.qsize() < _MAX_QUEUED:
            self._records.put(record)
        else:
            self._dropped += 1
            LOG_LINES_DROPPED.inc()

    def close(self) -> None:
        """Wait until the records are written, but not for long."""
        self._records.put(None)
        self._thread.join(_CLOSE_SECONDS)
        super().close()

    def _write(self) -> None:
        record: logging.LogRecord | None
        while (record := self._records.get()) is not None:
            # Not `handle`, whose lock the thread would keep while it waits for the reader.
            self._target.emit(record)
            if self._records.empty():
                self._report_dropped()
        self._report_dropped()

    def _report_dropped(self) -> None:
        if number := self._dropped - self._reported:
            self._reported += number
            text = "%d log lines were dropped: standard error was not read in time"
            self._target.emit(_record("registry", logging.WARNING, text, number))


class StderrHandler(logging.StreamHandler):  # type: ignore[type-arg] # not generic at run time
    """Writes log records; omits repeated ones, and says so.

    So clients whose requests are refused cannot fill the disk. Defects and the access log are
    written in full. log_format: `text` or `json`.
    """

    def __init__(self, log_format: str, *stream: TextIO) -> None:
        super().__init__(*(stream or [_unbuffered_stderr()]))
        self.setFormatter(_JsonFormatter() if log_format == "json" else _LineFormatter(_LINE))
        # By the name of the logger, the level, and the message template.
        self._counts = Counter[tuple[str, int, str]]()
        self._period_end = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record unless too many of its kind were written in this period."""
        if record.exc_info or record.name == ACCESS_LOG:
            super().emit(record)
            return
        if record.created >= self._period_end:
            self._counts.clear()
            self._period_end = record.created + _PERIOD_SECONDS
        kind = record.name, record.levelno, str(record.msg)
        self._counts[kind] += 1
        if self._counts[kind] <= _MAX_REPEATS:
            super().emit(record)
        elif self._counts[kind] == _MAX_REPEATS + 1:
            text = "More lines like `%s` are omitted for up to %g s"
            super().emit(_record(record.name, record.levelno, text, record.msg, _PERIOD_SECONDS))


def _record(name: str, level: int, text: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, level, "", 0, text, args, None)


def _unbuffered_stderr() -> TextIO:
    """Return standard error without a lock: a thread that waits for a slow reader would hold it.

    Python then could not exit.
    """
    raw = FileIO(2, "w", closefd=False)
    return TextIOWrapper(cast(BinaryIO, raw), errors="backslashreplace", write_through=True)


class _LineFormatter(logging.Formatter):
    """Formats a message as one line, truncated if it is too long."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of logging
        """Return the line without its end."""
        return _bounded(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - of logging
        """Return a traceback, whose last lines may have text of a client."""
        return "\n".join(map(printable, super().formatException(ei).split("\n")))


class _JsonFormatter(JsonFormatter):
    """Formats a record as a JSON object on one line.

    It has `time` (RFC 3339), `level`, and `message` or the fields of an entry of the access log.
    """

    def __init__(self) -> None:
        super().__init__(
            ["levelname", "message"], rename_fields={"levelname": "level"}, timestamp="time"
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Return the members of the object."""
        message = log_data.pop("message")
        head = {name: log_data.pop(name) for name in ("time", "level")}
        return head | ({"message": _bounded(message)} if message else {}) | log_data


def _bounded(text: str) -> str:
    """Return a line that is no longer than allowed, its control characters escaped."""
    line = printable(text).encode(errors="backslashreplace")
    if len(line) < _MAX_BYTES:
        return line.decode()
    return line[: _MAX_BYTES - len("…\n".encode())].decode(errors="ignore") + "…"

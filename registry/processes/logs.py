"""The log of each process: its lines are bounded, and so is their number."""

import logging
from dataclasses import dataclass
from typing import TextIO

_MAX_BYTES = 500
"""The length of a line; tracebacks follow on further lines."""

_MAX_REPEATS = 100
_PERIOD_SECONDS = 10.0
"""At most so many lines with the same message template are written in one period."""


def log_to_stderr() -> None:
    """Send the log records of this process to standard error."""
    logging.basicConfig(level=logging.INFO, handlers=[StderrHandler()])


class StderrHandler(logging.StreamHandler):  # type: ignore[type-arg] # not generic at run time
    """Writes log records; omits repeated ones, except defects, and says how many.

    Clients whose requests are refused can thus not fill the disk.
    """

    def __init__(self, *stream: TextIO) -> None:
        super().__init__(*stream)
        self.setFormatter(_LineFormatter("%(asctime)s %(levelname)s %(message)s"))
        self._periods: dict[_Kind, _Period] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record unless too many of its kind were written in this period."""
        if record.exc_info:
            super().emit(record)
            return
        kind = record.name, record.levelno, str(record.msg)
        if kind not in self._periods or self._periods[kind].ends <= record.created:
            self._end_periods(record.created)
            self._periods[kind] = _Period(record.created + _PERIOD_SECONDS)
        period = self._periods[kind]
        period.count += 1
        if period.count <= _MAX_REPEATS:
            super().emit(record)
        elif period.omitted == 1:
            self._note(kind, "More lines like `%s` are omitted for up to %g s", _PERIOD_SECONDS)

    def _end_periods(self, now: float) -> None:
        for kind, period in list(self._periods.items()):
            if period.ends <= now:
                del self._periods[kind]
                if period.omitted > 0:
                    self._note(kind, f"{period.omitted} lines like `%s` were omitted")

    def _note(self, kind: "_Kind", text: str, *args: object) -> None:
        name, level, template = kind
        record = logging.LogRecord(name, level, "", 0, text, (template, *args), None)
        super().emit(record)


_Kind = tuple[str, int, str]
"""The name of the logger, the level, and the message template."""


@dataclass(slots=True)
class _Period:
    """ends: when, as in LogRecord.created. count: of records, written or not."""

    ends: float
    count: int = 0

    @property
    def omitted(self) -> int:
        """How many were not written, if positive."""
        return self.count - _MAX_REPEATS


class _LineFormatter(logging.Formatter):
    """Formats a message as one line, truncated if it is too long."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of logging
        """Return the line without its end."""
        text = super().formatMessage(record).replace("\n", "\\n")
        line = text.encode(errors="backslashreplace")
        if len(line) < _MAX_BYTES:
            return line.decode()
        return line[: _MAX_BYTES - len("…\n".encode())].decode(errors="ignore") + "…"

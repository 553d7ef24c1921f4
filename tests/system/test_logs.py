"""The log on standard error: bounded lines, and a bounded number of them."""

import fcntl
import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from threading import Event

import pytest

from registry.http import ACCESS_LOG
from registry.http.request_recorder import Entry
from registry.metrics import registry_of_service
from registry.processes.logs import BackgroundHandler, StderrHandler
from tests.system.conftest import Start
from tests.system.service import TIMEOUT

LOG = logging.Logger("tests.logs", logging.INFO)
"""Not from getLogger: pytest would send what it logs to another process, as valid UTF-8 only."""


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """What the handler of the service has written."""
    handler = StderrHandler("text", stream := io.StringIO())
    LOG.addHandler(handler)
    yield stream
    LOG.removeHandler(handler)


@pytest.mark.parametrize(
    "character", ["x", "ä", "\n", "\udcff"], ids=["letter", "umlaut", "line end", "surrogate"]
)
def test_a_long_message_is_truncated_to_one_line(character: str, output: io.StringIO) -> None:
    LOG.info("begin %s", character * 8_000)
    line = output.getvalue()
    assert "INFO begin " in line
    assert line.endswith("…\n")
    assert line.count("\n") == 1
    assert 400 < len(line.encode()) <= 500


def test_the_traceback_of_a_defect_is_not_truncated(output: io.StringIO) -> None:
    try:
        raise RuntimeError("x" * 1_000)
    except RuntimeError:
        LOG.exception("a defect")
    assert "x" * 1_000 in output.getvalue()


@pytest.mark.parametrize("character", ["\r", "\x1b[2J", "\x9b2J", "\x00", "\u2028", "\x7f"])
def test_no_control_character_reaches_a_terminal(character: str, output: io.StringIO) -> None:
    LOG.info("begin %s end", character)
    try:
        raise RuntimeError(f"begin {character} end")
    except RuntimeError:
        LOG.exception("a defect")
    assert output.getvalue().count(" end\n") == 2
    assert character not in output.getvalue()
    assert output.getvalue().isprintable() is False  # the line ends
    assert output.getvalue().replace("\n", "").isprintable()


def test_a_line_of_json_has_all_that_a_line_of_text_has() -> None:
    LOG.addHandler(handler := StderrHandler("json", stream := io.StringIO()))
    LOG.info("begin %s\x1b\n", "x" * 8_000, extra={"request_id": "mine"})
    LOG.info(Entry(route="/persons", status=200, client=None))
    try:
        raise RuntimeError
    except RuntimeError:
        LOG.exception("a defect")
    LOG.removeHandler(handler)
    long, entry, defect = map(json.loads, stream.getvalue().splitlines())
    assert (long["level"], long["request_id"]) == ("INFO", "mine")
    assert long["message"].startswith("begin xxx")
    assert len(long["message"].encode()) <= 500
    assert datetime.fromisoformat(entry.pop("time")).tzinfo == UTC
    assert entry == {"level": "INFO", "route": "/persons", "status": 200, "client": None}
    assert "RuntimeError" in defect["exc_info"]


def test_the_access_log_and_the_tracebacks_of_defects_are_never_omitted(
    output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(200):
        LOG.error("a defect", exc_info=RuntimeError())
    assert output.getvalue().count("RuntimeError") == 200
    monkeypatch.setattr(LOG, "name", ACCESS_LOG)
    for _ in range(200):
        LOG.info(Entry(route="/persons"))
    assert output.getvalue().count("route=/persons") == 200


def dropped_lines() -> int:
    return int(registry_of_service().get_sample_value("registry_log_lines_dropped_total") or 0)


def test_lines_wait_until_there_are_too_many() -> None:
    may_write = Event()

    class SlowStream(io.StringIO):
        def write(self, text: str) -> int:
            may_write.wait(TIMEOUT)
            return super().write(text)

    target = StderrHandler("text", stream := SlowStream())
    LOG.addHandler(handler := BackgroundHandler(target))
    before = dropped_lines()
    for number in range(10_050):
        LOG.info(str(number))  # else they would count as repeated
    dropped = dropped_lines() - before
    assert 49 <= dropped <= 50  # one may have been taken from the queue
    may_write.set()
    LOG.removeHandler(handler)
    handler.close()
    *lines, last = stream.getvalue().splitlines()
    assert [line.partition("INFO ")[2] for line in lines] == [
        str(number) for number in range(10_050 - dropped)
    ]
    assert f"WARNING {dropped} log lines were dropped" in last


def test_a_service_whose_standard_error_is_not_read_serves_and_stops(
    start: Start, mongodb_uri: str
) -> None:
    service = start("--access-log", "on", reads_log=False, mongodb_uri=mongodb_uri)
    assert service.process.stderr
    fcntl.fcntl(service.process.stderr, fcntl.F_SETPIPE_SZ, 4_096)
    for _ in range(50):  # more than the pipe can hold
        assert service.request("/health/live") == {"status": "ok"}
    service.process.terminate()
    assert service.process.wait(TIMEOUT) == 0


def test_repeated_lines_are_omitted_for_a_period(
    output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr("time.time", lambda: now)
    monkeypatch.setattr("time.time_ns", lambda: int(now * 1e9))
    for number in range(110):
        LOG.info("refused %d", number)
        LOG.info("another kind")
    lines = output.getvalue().splitlines()
    assert [line.partition("INFO ")[2] for line in lines if "refused" in line] == [
        *(f"refused {number}" for number in range(100)),
        "More lines like `refused %d` are omitted for up to 10 s",
    ]
    now += 10
    LOG.info("refused %d", 110)
    later = output.getvalue().splitlines()[len(lines) :]
    assert [line.partition("INFO ")[2] for line in later] == ["refused 110"]

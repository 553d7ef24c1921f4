"""The log on standard error: bounded lines, and a bounded number of them."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError

import pytest

from registry.processes import logs
from registry.processes.logs import StderrHandler
from tests.system.conftest import Start
from tests.system.service import TIMEOUT

LOG = logging.Logger("tests.logs", logging.INFO)
"""Not from getLogger: pytest would send what it logs to another process, as valid UTF-8 only."""


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """What the handler of the service has written."""
    handler = StderrHandler(stream := io.StringIO())
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


def test_repeated_lines_are_omitted_and_counted(
    output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_MAX_REPEATS", 3)
    now = 1_000.0
    monkeypatch.setattr("time.time", lambda: now)
    monkeypatch.setattr("time.time_ns", lambda: int(now * 1e9))
    for number in range(10):
        LOG.info("refused %d", number)
        LOG.info("another kind")
    lines = output.getvalue().splitlines()
    assert [line.partition("INFO ")[2] for line in lines if "refused" in line] == [
        "refused 0",
        "refused 1",
        "refused 2",
        "More lines like `refused %d` are omitted for up to 10 s",
    ]
    now += 10
    LOG.info("refused %d", 10)
    later = output.getvalue().splitlines()[len(lines) :]
    assert [line.partition("INFO ")[2] for line in later] == [
        "7 lines like `refused %d` were omitted",
        "7 lines like `another kind` were omitted",
        "refused 10",
    ]


def test_the_tracebacks_of_defects_are_never_omitted(
    output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_MAX_REPEATS", 3)
    for _ in range(10):
        LOG.error("a defect", exc_info=RuntimeError())
    assert output.getvalue().count("RuntimeError") == 10


def test_refused_requests_leave_few_short_lines(start: Start) -> None:
    service = start()
    identifiers = []

    def refuse(_: int) -> None:
        with pytest.raises(HTTPError) as caught:
            service.request(f"/{'x' * 7_000}")
        caught.value.close()
        identifiers.append(caught.value.headers["X-Request-ID"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(refuse, range(300)))
    service.process.terminate()
    _, log = service.process.communicate(timeout=TIMEOUT)
    lines = log.splitlines()
    assert 100 < len(lines) < 210  # two periods at most
    assert max(len(line.encode()) for line in lines) <= 500
    for line in lines:
        assert "omitted" in line or any(f"{id_} -> 404 " in line for id_ in identifiers)

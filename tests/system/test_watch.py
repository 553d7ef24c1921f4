"""`registry watch` as a process: killed again and again, and with the receiver in docs."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import Start
from tests.system.service import COMMAND, ROOT, TIMEOUT, Service, environment, eventually, person

PAGE = (ROOT / "docs" / "history.md").read_text()


def run(command: Sequence[str | Path], cwd: Path = ROOT, **streams: Any) -> subprocess.Popen[bytes]:
    """Start a program that the test kills."""
    variables = environment()
    return subprocess.Popen(command, cwd=cwd, env=variables, **streams)  # noqa: S603 - documented


def command_of(service: Service, directory: Path, *options: str | Path) -> list[str | Path]:
    """Return a command that keeps its position in the directory."""
    file = directory / "position"
    return [*COMMAND, "watch", "--url", service.url, "--position-file", file, *options]


def has_more(file: Path, count: int) -> bool:
    return len(names_in(file)) > count


def names_in(file: Path) -> list[str]:
    """Return the first names of the persons that were delivered, without repetitions."""
    lines = re.findall("(.*)\n", file.read_text())  # not one that is being written
    assert "refused" not in lines
    operations: list[Any] = [json.loads(line) for line in lines]
    return list(
        dict.fromkeys(operation["data"]["attributes"]["first_name"] for operation in operations)
    )


@pytest.mark.slow
def test_deliveries_to_the_documented_receiver_continue_after_each_kill(
    tmp_path: Path, start: Start, unused_tcp_port_factory: Callable[[], int]
) -> None:
    service, choose = start(), random.Random(2)  # noqa: S311 - the same ones
    port = str(unused_tcp_port_factory())
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (secret,) = re.findall(r"(?m)^\(umask.*$", PAGE)
    subprocess.run(["/bin/sh", "-c", secret], cwd=tmp_path, check=True, timeout=TIMEOUT)  # noqa: S603 - as documented
    received = tmp_path / "received"
    receiver_options = ("--post", f"http://127.0.0.1:{port}", "--secret-file")
    command = command_of(service, tmp_path, *receiver_options, tmp_path / "hook.secret")
    with (
        received.open("w") as output,
        run(
            [sys.executable, "-c", program.replace("8090", port)],
            tmp_path,
            stdout=output,
            stderr=subprocess.DEVNULL,
        ) as receiver,
    ):
        try:
            written = 0
            while written < 100:
                with run(command) as watch:
                    assert eventually((tmp_path / "position").exists)
                    for _ in range(20):
                        service.request("/persons", person(f"P{written}"))
                        written += 1
                    least = choose.randint(written - 20, written - 1)
                    assert eventually(partial(has_more, received, least))
                    watch.kill()
            with run(command) as watch:
                assert eventually(lambda: len(names_in(received)) == written)
                watch.kill()
            delivered = names_in(received)
            forger = HTTPConnection("127.0.0.1", int(port), timeout=TIMEOUT)
            forger.request("POST", "/", b"{}")
            assert forger.getresponse().status == 401
            forger.close()
        finally:
            receiver.kill()
    assert delivered == [f"P{number}" for number in range(written)]


def test_each_change_is_a_line_of_json(tmp_path: Path, start: Start) -> None:
    service, output = start(), tmp_path / "audit.ndjson"
    command = command_of(service, tmp_path, "--type", "person")
    with (
        output.open("w") as lines,
        run(command, stdout=lines) as watch,
    ):
        assert eventually((tmp_path / "position").exists)
        service.request("/persons", person("Grace"))
        assert eventually(lambda: names_in(output) == ["Grace"])
        watch.kill()

"""The service as its users start it: a process with a command line, signals and an exit status."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import orjson

from tests.support import MEDIA_TYPE

ROOT = Path(__file__).parents[2]

COMMAND = (sys.executable, "-m", "registry")

TIMEOUT = 60
"""Seconds after which a process that should have ended is a failure."""


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of the tests with no settings but these, and any free port."""
    setting = re.compile("REGISTRY_|MONGODB_URI")
    plain = {key: os.environ[key] for key in os.environ if not setting.match(key)}
    return plain | {"REGISTRY_PORT": "0"} | variables


def refusal(*arguments: str | Path, **variables: str) -> str:
    """Return the one line that a start ends with."""
    return complaint([*COMMAND, *arguments], environment(**variables))


def complaint(command: Sequence[str | Path], environment: Mapping[str, str]) -> str:
    """Return the one line that a command ends with."""
    done = subprocess.run(  # noqa: S603 - the service
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode in {1, 2}
    assert done.stdout == ""
    assert done.stderr.startswith("registry: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def person(name: str) -> dict[str, Any]:
    attributes = {"first_name": name, "last_name": "Hopper"}
    return {"data": {"type": "person", "attributes": attributes}}


class Service:
    """A service that was started."""

    def __init__(self, data_dir: Path, *arguments: str | Path, **variables: str) -> None:
        self.data_dir = data_dir
        self.url = ""
        self.process = subprocess.Popen(  # noqa: S603 - the service
            [*COMMAND, "--data-dir", data_dir, *arguments],
            cwd=ROOT,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def mongod(self) -> int:
        """The id of the process of its mongod."""
        return int((self.data_dir / "mongodb" / "mongod.lock").read_text())

    def wait_until_ready(self) -> str:
        """Return the line that says that it is."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        found = re.search(r"API (\S+)/persons,", line)
        assert found, (line, self.process.communicate(timeout=TIMEOUT))
        self.url = found[1]
        return line

    def request(self, path: str, document: Any = None) -> Any:
        """GET a path, or POST a document to it; return the document of the answer."""
        body = None if document is None else orjson.dumps(document)
        request = Request(self.url + path, body, {"Content-Type": MEDIA_TYPE})  # noqa: S310 - http
        with urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310 - http
            return orjson.loads(response.read())

    def names(self) -> list[str]:
        """Return the first names of all persons."""
        persons = self.request("/persons")["data"]
        return [one["attributes"]["first_name"] for one in persons]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Return the exit status after a signal."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Return the exit status; nothing more may have been said."""
        assert self.process.communicate(timeout=TIMEOUT) == ("", "")
        return self.process.returncode

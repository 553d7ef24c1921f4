"""The service as a process: its command line, signals, output and exit status."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import orjson
import pytest

from registry.testing import new_name
from tests.programs import run
from tests.support import MEDIA_TYPE

ROOT = Path(__file__).parents[2]

COMMAND = (sys.executable, "-m", "registry")

TIMEOUT = 60
"""Seconds within which every process starts or exits; a few are usual on an idle machine."""

WORKERS = ["1", pytest.param("2", marks=pytest.mark.slow)]
"""How many workers serve: what one does, two do as well, in another way."""


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of the tests with only these settings, and a free port by default."""
    setting = re.compile("REGISTRY_|MONGODB_URI")
    unrelated = {key: os.environ[key] for key in os.environ if not setting.match(key)}
    return unrelated | {"REGISTRY_PORT": "0"} | variables


def start_error(*arguments: str | Path, status: int = 1, **variables: str) -> str:
    """Start the service, which must fail; return the error message."""
    return error_message([*COMMAND, *arguments], environment(**variables), status)


def run_command(
    command: Sequence[str | Path], environment: Mapping[str, str], cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends; return its exit status and its output."""
    return run(command, TIMEOUT, cwd=cwd, env=environment)


def error_message(
    command: Sequence[str | Path], environment: Mapping[str, str], status: int = 1
) -> str:
    """Run a command, which must fail; return its error message, which must be a single line."""
    done = run_command(command, environment)
    assert done.returncode == status
    assert done.stdout == ""
    assert done.stderr.startswith("registry: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def eventually(condition: Callable[[], bool]) -> bool:
    """Return whether the condition becomes true within the timeout."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def has_exited(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(number) for number in listed.split()]


def descendants(process: int) -> list[int]:
    """Return the process ids of the children, and of their descendants."""
    return [found for child in children(process) for found in (child, *descendants(child))]


def person(name: str) -> dict[str, Any]:
    """Return the document that creates a person."""
    attributes = {"first_name": name, "last_name": "Hopper"}
    return {"data": {"type": "person", "attributes": attributes}}


class Service:
    """A running service. url, announcement: empty until it is ready.

    command: what starts it. process_group: of a new session by default. reads_log: whether its log
    is read while it runs, as the pipe could become full. variables: of its environment.
    """

    def __init__(
        self,
        data_dir: Path,
        *arguments: str | Path,
        command: Sequence[str | Path] = COMMAND,
        process_group: int | None = None,
        reads_log: bool = True,
        **variables: str,
    ) -> None:
        self.data_dir = data_dir
        self.variables = variables
        self.url = ""
        self.announcement = ""
        self.process = subprocess.Popen(  # noqa: S603 - the service
            [*command, "--data-dir", data_dir, *arguments],
            cwd=ROOT,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=process_group is None,
            process_group=process_group,
        )
        self._announced = _lines_of(self.process.stdout)
        self._log = _lines_of(self.process.stderr) if reads_log else SimpleQueue[str]()

    @property
    def mongod(self) -> int:
        """The process id of the embedded mongod."""
        return int((self.data_dir / "mongodb" / "mongod.lock").read_text())

    def wait_until_ready(self) -> None:
        self.announcement = self._announced.get(timeout=TIMEOUT)
        if not self.announcement:
            self._announced.put("")  # for `end`, which says why
        match = re.search(r"API (\S+)/persons,", self.announcement)
        assert match, (self.announcement, self.end())
        self.url = match[1]

    def log_line(self, text: str = "") -> str:
        """Return the next line of the log that contains the text."""
        while line := self._log.get(timeout=TIMEOUT):
            if text in line:
                return line
        raise AssertionError(f"the log has no line with {text!r}")

    def request(
        self, path: str, document: Any = None, method: str | None = None, **headers: str
    ) -> Any:
        """GET a path, or POST a document to it by default; return the document of the response."""
        body = None if document is None else orjson.dumps(document)
        headers = {"Content-Type": MEDIA_TYPE, **headers}
        request = Request(self.url + path, body, headers, method=method)  # noqa: S310 - http
        with urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310 - http
            return orjson.loads(response.read() or b"null")

    def read(self, path: str) -> Any:
        """GET a path, again while the database is unavailable; return the document."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return self.request(path)
            except HTTPError as error:
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
                    raise AssertionError(error.read().decode()) from None
                time.sleep(0.1)

    def names(self) -> list[str]:
        """Return the first names of all persons."""
        persons = self.read("/persons")["data"]
        return [person["attributes"]["first_name"] for person in persons]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit status, and the lines of the log not taken before."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> tuple[int, str]:
        """Wait until the service ends; return as `stop`. It must not print anything else."""
        status = self.process.wait(TIMEOUT)
        assert not any(_rest_of(self._announced))
        return status, "".join(_rest_of(self._log))

    def close(self) -> None:
        """Stop the service at the end of a test, in whatever state the test has left it."""
        with self.process as process:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                process.wait(TIMEOUT)


@contextmanager
def starting(data_dir: Path, **defaults: str) -> Iterator[Callable[..., Service]]:
    """Yield a function that starts services, all of which are stopped at the end.

    waits: whether until it is ready. mongodb_uri: of a mongod that runs already, on which the
    service has a database of its own. options: those of `Service`, and environment variables,
    which replace the defaults.
    """
    services: list[Service] = []

    def start(
        *arguments: str | Path,
        data_dir: Path = data_dir,
        waits: bool = True,
        mongodb_uri: str | None = None,
        **options: Any,
    ) -> Service:
        if mongodb_uri:
            options = {"MONGODB_URI": mongodb_uri, "REGISTRY_DATABASE": new_name()} | options
        services.append(service := Service(data_dir, *arguments, **(defaults | options)))
        if waits:
            service.wait_until_ready()
        return service

    yield start
    for service in services:
        service.close()


def _lines_of(stream: IO[str] | None) -> SimpleQueue[str]:
    """Return a queue that gets all lines of a stream, and an empty text at its end."""
    lines: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        assert stream
        for line in stream:
            lines.put(line)
        lines.put("")

    Thread(target=read, daemon=True).start()
    return lines


def _rest_of(lines: SimpleQueue[str]) -> Iterator[str]:
    while line := lines.get(timeout=TIMEOUT):
        yield line
    lines.put("")  # for those who ask again


TWO = ("--workers", "2")


def command_of(process: int) -> bytes:
    """Return the command line of a process, nothing if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def workers_of(service: Service) -> list[int]:
    return [
        child
        for child in children(service.process.pid)
        if b"registry.processes.workers" in command_of(child)
    ]


def create_persons(service: Service, count: int) -> list[int]:
    """Create persons, each on its own connection, eight at a time; return their ids."""

    def create(number: int) -> int:
        return int(service.request("/persons", person(f"Grace {number}"))["data"]["id"])

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(create, range(count)))


PAGE_TESTS: list[str] = re.findall(
    r"```python\n(.*?)```",
    (ROOT / "docs/python-client.md").read_text().partition("## Tests")[2],
    re.DOTALL,
)
"""The tests of the page: without other plugins, with pytest-asyncio, and with pytest-aiohttp."""


def run_pytest(
    directory: Path,
    tests: list[str],
    *options: str,
    python: Path | str = sys.executable,
    **more: str,
) -> str:
    """Run tests, where warnings are errors and all must pass; return the output."""
    for number, source in enumerate(tests):
        (directory / f"test_{number}.py").write_text(source)
    command = [python, "-m", "pytest", "-s", "-W", "error", "-p", "no:cacheprovider", *options]
    done = run(command, cwd=directory, env=os.environ | more)
    assert f" {len(tests)} passed" in done.stdout, done.stdout + done.stderr
    return done.stdout

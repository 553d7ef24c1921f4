"""The input, the output and the progress of commands; lines have no control characters."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, NoReturn

from registry.model.graph import Graph
from registry.program import StartError, new_file, note, printable


def output(text: str) -> None:
    """Print a line of the output; exit with one line on standard error if that is not possible.

    Exits without one, as if the signal SIGPIPE had ended the command, after a broken pipe.
    """
    require_output()
    try:
        print(printable(text), flush=True)  # noqa: T201 - the purpose of this function
    except BrokenPipeError:
        end_after_broken_pipe()
    except OSError as error:
        discard_output()
        sys.exit(f"registry: cannot write to standard output: {error.strerror}")


def require_output() -> None:
    """Exit with one line on standard error if standard output is closed."""
    if sys.stdout is None:
        sys.exit("registry: standard output is closed")


@contextmanager
def input_file(name: str) -> Iterator[IO[bytes]]:
    """Yield a file, or for `-` a seekable copy of standard input. Raises OSError."""
    if name != "-":
        with Path(name).open("rb") as file:
            yield file
        return
    if sys.stdin is None:
        raise OSError("standard input is closed")
    with TemporaryFile() as copy:
        copyfileobj(sys.stdin.buffer, copy)
        copy.seek(0)
        yield copy


@contextmanager
def output_file(name: str) -> Iterator[IO[bytes]]:
    """Yield a new file, which gets its name when it is complete, or standard output for `-`.

    Raises OSError; exits as `output` does if standard output is closed or nobody reads it.
    """
    if name != "-":
        with new_file(Path(name)) as file:
            yield file
        return
    require_output()
    try:
        with open(sys.stdout.fileno(), "wb", closefd=False) as file:
            yield file
    except BrokenPipeError:
        end_after_broken_pipe()


def fail(error: StartError) -> NoReturn:
    """Exit with the error on standard error."""
    note(f"registry: {error}")
    sys.exit(error.status)


def end_after_broken_pipe() -> NoReturn:
    """Exit as if SIGPIPE had ended the command: nobody reads its output, as after `| head`."""
    discard_output()
    sys.exit(128 + signal.SIGPIPE)


def discard_output() -> None:
    """Discard what is buffered for standard output, which Python would try to write at exit."""
    with Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())


def describe(error: Exception) -> str:
    """Return the reason for an error message; for an OSError with the file, if it is known."""
    if not isinstance(error, OSError):
        return str(error)
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def counted(graph: Graph, counts: Mapping[str, int]) -> list[str]:
    """Return counts as texts, such as `1 person`. counts: by collection, or another plural."""
    singular = {resource.collection: resource.type for resource in graph.values()}
    return [
        f"{count:,} {singular.get(name, name) if count == 1 else name}"
        for name, count in counts.items()
    ]

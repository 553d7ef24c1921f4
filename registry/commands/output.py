"""What commands print: their output to standard output, notes for the reader to standard error."""

import os
import signal
import sys


def output(text: str) -> None:
    """Print lines of the output; exit with one line on standard error if that is not possible.

    Exits without one, as if the signal SIGPIPE had ended the command, if the reader has gone.
    """
    try:
        print(text, flush=True)  # noqa: T201 - the purpose of this function
    except BrokenPipeError:
        end_without_reader()
    except OSError as error:
        _discard()
        sys.exit(f"registry: cannot write to standard output: {error.strerror}")


def note(line: str) -> None:
    """Write a line for the reader, which is not part of the output, to standard error."""
    print(line, file=sys.stderr)  # noqa: T201 - the purpose of this function


def end_without_reader() -> None:
    """Exit as if SIGPIPE had ended the command: nobody reads its output, as after `| head`."""
    _discard()
    sys.exit(128 + signal.SIGPIPE)


def _discard() -> None:
    """Discard what is buffered for standard output, which Python would try to write at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def describe(error: OSError) -> str:
    """Return what is wrong, and with which file if that is known, for an error message."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason

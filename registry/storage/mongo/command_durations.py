"""The time that commands take, from the call of the driver to the reply.

A CommandListener of the driver would also observe background tasks and cursors, but it is called in
Python for every event: reading one person took about a tenth more CPU time.
"""

from collections.abc import Awaitable
from time import perf_counter
from typing import TypeVar

from registry.metrics.families import COMMANDS

_Reply = TypeVar("_Reply")


async def observed(command: str, reply: Awaitable[_Reply]) -> _Reply:
    """Return the reply to a command, or raise its error, and observe how long it takes."""
    begin, outcome = perf_counter(), "failure"
    try:
        result = await reply
        outcome = "success"
        return result
    finally:
        COMMANDS.observe(COMMANDS.sample(command, outcome), perf_counter() - begin)

"""A way to mongod that breaks over what is written."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import bson

_OP_MSG = 2013


class Fate(Enum):
    """What becomes of a write, each time that the driver sends it."""

    PASSED = auto()
    REQUEST_LOST = auto()
    REQUEST_LATE = auto()  # it arrives right before the next write that passes
    ANSWER_LOST = auto()


class Proxy:
    """Stands between the service and the mongod with this URI, of a unix socket.

    It has a thread of its own: the driver blocks that of the service when it says goodbye.

    verb: of the writes that have a fate. fate: of each of them, but of those that the service tries
    once more. harmed: how often each was sent that did not pass. once: whether all pass after the
    first of these; for_good: whether nothing does.
    """

    def __init__(self, mongodb_uri: str) -> None:
        self._path = unquote(urlsplit(mongodb_uri).netloc)
        self._known: dict[object, Fate] = {}
        self._harmed_ids: set[int] = set()
        self._late: list[bytes] = []
        self._delivering = asyncio.Lock()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self.uri = ""
        self.verb = "insert"
        self.fate = Fate.PASSED
        self.once = False
        self.for_good = False
        self.harmed: Counter[object] = Counter()

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        """Take connections at `uri`."""
        thread = Thread(target=self._loop.run_forever)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
            yield self
            self.stop()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    def stop(self) -> None:
        """Break all connections, and take no others."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1")
        port = self._server.sockets[0].getsockname()[1]
        self.uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"

    async def _stop(self) -> None:
        assert self._server is not None
        for listener in self._server.sockets:
            self._loop.remove_reader(listener.fileno())
        await asyncio.sleep(0.01)  # what asyncio has just taken it loses if the server is closed
        self._server.close()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for writer in self._writers:
                writer.close()
            await asyncio.wait(others, timeout=0.1)  # some may have connected just now
        await asyncio.gather(*filter(None, self._tasks))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        self._writers.add(writer)
        mongod, to_mongod = await asyncio.open_unix_connection(self._path)
        self._writers.add(to_mongod)
        lossy = asyncio.Event()
        answering = asyncio.create_task(_answer(mongod, writer, lossy))
        with suppress(OSError, asyncio.IncompleteReadError):
            while await self._arrives(message := await _message(reader), lossy):
                to_mongod.write(message)
        writer.close()
        to_mongod.close()
        await answering

    async def _arrives(self, message: bytes, lossy: asyncio.Event) -> bool:
        """Say whether mongod gets the message; let `lossy` know if nobody gets the answer."""
        command, ids = _command(message)
        if self.for_good and self.harmed:
            return False
        if self.verb != next(iter(command), None) or (self.once and self.harmed):
            return True
        # By the number the driver repeats it; while it doubts the server, it gives none.
        session = command.get("lsid", {}).get("id")
        write = session, command.get("txnNumber", message[4:8])
        if write not in self._known:
            self._known[write] = Fate.PASSED if ids & self._harmed_ids else self.fate
        match self._known[write]:
            case Fate.PASSED:
                await self._deliver()
                return True
            case Fate.REQUEST_LATE:
                self._late.append(message)
            case Fate.ANSWER_LOST:
                lossy.set()
        self.harmed[write] += 1
        self._harmed_ids |= ids
        return lossy.is_set()

    async def _deliver(self) -> None:
        """Send what is late; who finds it on its way waits for its arrival."""
        async with self._delivering:
            while self._late:
                mongod, to_mongod = await asyncio.open_unix_connection(self._path)
                to_mongod.write(self._late.pop(0))
                await _message(mongod)
                to_mongod.close()


async def _answer(
    mongod: asyncio.StreamReader, writer: asyncio.StreamWriter, lossy: asyncio.Event
) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        while True:
            message = await _message(mongod)
            if lossy.is_set():
                break
            writer.write(message)
    writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Read a message of the wire protocol, which begins with its length."""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack("<i", length)[0] - 4)


def _command(message: bytes) -> tuple[dict[str, Any], set[int]]:
    """Return the command, and the ids of what it inserts or updates, in it or beside it."""
    if struct.unpack_from("<i", message, 12) != (_OP_MSG,):
        return {}, set()
    (length,) = struct.unpack_from("<i", message, 21)
    command, beside = bson.decode(message[21 : 21 + length]), message[21 + length :]
    name = "documents" if "insert" in command else "updates"
    _, _, sent = beside.partition(f"{name}\0".encode())
    written = [*command.get(name, ()), *bson.decode_all(sent)]
    return command, {id_ for one in written for id_ in _ids(one)}


def _ids(sent: dict[str, Any]) -> list[int]:
    id_ = sent.get("q", sent)["_id"]
    found: list[int] = id_["$in"] if isinstance(id_, dict) else [id_]
    return found

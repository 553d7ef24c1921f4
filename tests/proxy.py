"""A proxy in front of mongod that breaks connections during writes."""

import asyncio
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import bson

_OP_MSG = 2013


class Effect(Enum):
    """What happens to a write when the driver sends it for the first time."""

    NONE = auto()
    REQUEST_LOST = auto()
    REPLY_LOST = auto()


class Proxy:
    """Forwards messages between the service and a mongod that listens on a unix socket.

    It runs in its own thread, because the driver blocks the service's thread while closing.

    uri: where the service connects. verb: the name of the affected command. effect: what happens to
    each such write, but not to retries by the driver or the service. affected: the writes that were
    affected. once: whether only the first write is. permanent: whether nothing is delivered after
    it.
    """

    def __init__(self, mongodb_uri: str) -> None:
        self._path = unquote(urlsplit(mongodb_uri).netloc)
        self._known: set[object] = set()
        self._affected_ids: set[int] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self.uri = ""
        self.verb = "insert"
        self.effect = Effect.NONE
        self.once = False
        self.permanent = False
        self.affected: set[object] = set()

    @contextmanager
    def running(self) -> Iterator["Proxy"]:
        """Accept connections at `uri`."""
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
        """Stop listening and close all connections."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1")
        port = self._server.sockets[0].getsockname()[1]
        self.uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"

    async def _stop(self) -> None:
        assert self._server is not None
        for listener in self._server.sockets:
            self._loop.remove_reader(listener.fileno())
        # Closing at once would lose connections that asyncio has just accepted.
        await asyncio.sleep(0.01)
        self._server.close()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for writer in self._writers:
                writer.close()
            await asyncio.wait(tasks, timeout=0.1)  # a client may have connected since
        await asyncio.gather(*filter(None, self._tasks))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        self._writers.add(writer)
        mongod, to_mongod = await asyncio.open_unix_connection(self._path)
        self._writers.add(to_mongod)
        lossy = asyncio.Event()
        replies = asyncio.create_task(_forward_replies(mongod, writer, lossy))
        with suppress(OSError, asyncio.IncompleteReadError):
            while self._is_delivered(message := await _message(reader), lossy):
                to_mongod.write(message)
        writer.close()
        to_mongod.close()
        await asyncio.wait([replies])

    def _is_delivered(self, message: bytes, lossy: asyncio.Event) -> bool:
        """Return whether mongod gets the message; set `lossy` if its reply is to be lost."""
        command, ids = _command(message)
        if self.permanent and self.affected:
            return False
        if self.verb != next(iter(command), None) or (self.once and self.affected):
            return True
        # A retry has the same transaction number; without one, the request id identifies the write.
        session = command.get("lsid", {}).get("id")
        write = session, command.get("txnNumber", message[4:8])
        is_retry = write in self._known or not ids.isdisjoint(self._affected_ids)
        self._known.add(write)
        if is_retry or self.effect is Effect.NONE:
            return True
        self.affected.add(write)
        self._affected_ids |= ids
        if self.effect is Effect.REPLY_LOST:
            lossy.set()
        return lossy.is_set()


async def _forward_replies(
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
    """Read a message of the MongoDB protocol, which begins with its length."""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack("<i", length)[0] - 4)


def _command(message: bytes) -> tuple[dict[str, Any], set[int]]:
    """Return the command and the ids that it inserts or updates, in its body or a sequence."""
    if struct.unpack_from("<i", message, 12) != (_OP_MSG,):
        return {}, set()
    (length,) = struct.unpack_from("<i", message, 21)
    command, sequence = bson.decode(message[21 : 21 + length]), message[21 + length :]
    name = "documents" if "insert" in command else "updates"
    _, _, documents = sequence.partition(f"{name}\0".encode())
    written = [*command.get(name, ()), *bson.decode_all(documents)]
    return command, {id_ for document in written for id_ in _ids(document)}


def _ids(sent: dict[str, Any]) -> list[int]:
    id_ = sent.get("q", sent)["_id"]
    return list(id_.get("$in", ())) if isinstance(id_, dict) else [id_]

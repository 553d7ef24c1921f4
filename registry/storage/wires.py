"""Connections to mongod that the event loop itself reads: commands on them wait for no thread.

The driver hands each command to a thread and back; when requests share a trip, that takes longer
than all else that the trip costs the service. What only the driver knows stays with it:
passwords, encryption, elections, what to do about a failure.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import bson
from bson.codec_options import CodecOptions
from pymongo import MongoClient
from pymongo.errors import NetworkTimeout
from pymongo.uri_parser import parse_uri

from registry import __version__

_Address: TypeAlias = "tuple[str, int | None]"
"""Host and port, or the path of a unix socket and None."""

_Reply: TypeAlias = dict[str, Any]

_MESSAGE = struct.Struct("<iiiiIB")
"""How a message begins: its length, its number, that of the message it answers, its kind, flags,
and the kind of the section that follows."""

_NUMBER = 1  # the same for all, as a wire carries one message at a time
_OP_MSG, _NO_FLAGS, _ONE_DOCUMENT = 2013, 0, 0

_HELLO: dict[str, Any] = {
    "hello": 1,
    "client": {
        "driver": {"name": "registry wires", "version": __version__},
        "os": {"type": sys.platform},
    },
    "$db": "admin",
}
"""What MongoDB wants to hear first, and shows to who asks it for its connections."""

_PLAIN_OPTIONS = {"directConnection", "replicaSet", "readConcernLevel"}
"""The options of a URI that make no difference here, or are sent along with a command."""

_MOST = 32
"""Wires that may be open; the driver takes the commands for which there is none."""


def is_plain(uri: str) -> bool:
    """Whether commands may be sent as they are to the cluster with this URI, which is valid."""
    if not uri.startswith("mongodb://"):
        return False  # what is found by the name of a service is encrypted
    parsed = parse_uri(uri)
    return parsed["username"] is None and parsed["options"].keys() <= _PLAIN_OPTIONS


class Wires:
    """Connections to the server that takes the writes of a client, which are opened when needed.

    seconds: how long a reply may take.
    """

    def __init__(self, client: MongoClient[dict[str, Any]], seconds: float) -> None:
        self._client = client
        self._seconds = seconds
        self._idle: list[_Wire] = []
        self._busy = 0

    async def ask(self, database: str, command: Mapping[str, Any]) -> _Reply | None:
        """Return the reply to a command that may be sent twice; None if the driver is to send it.

        Raises NetworkTimeout if there is no reply in time.
        """
        message, address = _message({**command, "$db": database}), self._address()
        if address is None or self._busy == _MOST:
            return None
        self._busy += 1
        try:
            async with asyncio.timeout(self._seconds):
                return await self._ask(address, message)
        except TimeoutError as error:
            raise NetworkTimeout(f"no reply after {self._seconds:g} seconds") from error
        except (OSError, asyncio.IncompleteReadError):
            return None
        finally:
            self._busy -= 1

    async def close(self) -> None:
        """Close what is open, when nobody asks any more."""
        for wire in self._idle:
            await wire.close()
        self._idle.clear()

    def _address(self) -> _Address | None:
        servers = self._client.topology_description.server_descriptions()
        return next((address for address, one in servers.items() if one.is_writable), None)

    async def _ask(self, address: _Address, message: bytes) -> _Reply | None:
        options = self._client.codec_options
        is_new, is_done = not self._idle, False
        wire = await _Wire.to(address) if is_new else self._idle.pop()
        try:
            if wire.address != address:
                return None
            if is_new:
                await wire.ask(_message(_HELLO), options)
            reply = await wire.ask(message, options)
            is_done = reply is not None and reply["ok"] == 1
            return reply if is_done else None
        finally:
            if is_done:
                self._idle.append(wire)
            else:  # a reply may still be under way, or the server is another than it was
                wire.abort()


class _Wire:
    """A connection that carries one command at a time."""

    def __init__(
        self, address: _Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, address: _Address) -> _Wire:
        host, port = address
        if port is None:
            return cls(address, *await asyncio.open_unix_connection(host))
        return cls(address, *await asyncio.open_connection(host, port))

    async def ask(self, message: bytes, options: CodecOptions[_Reply]) -> _Reply | None:
        """Return the reply to a command, None if it is none that can be read."""
        self._writer.write(message)
        head = await self._reader.readexactly(_MESSAGE.size)
        length, _, _, *kind = _MESSAGE.unpack(head)
        if kind != [_OP_MSG, _NO_FLAGS, _ONE_DOCUMENT]:
            return None
        return bson.decode(await self._reader.readexactly(length - _MESSAGE.size), options)

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        self._writer.transport.abort()


def _message(command: Mapping[str, Any]) -> bytes:
    body = bson.encode(command)
    head = _MESSAGE.pack(_MESSAGE.size + len(body), _NUMBER, 0, _OP_MSG, _NO_FLAGS, _ONE_DOCUMENT)
    return head + body

"""The import of a file of rows, which is applied and reported while it arrives."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from tempfile import SpooledTemporaryFile
from typing import Any, Self

import orjson
from aiohttp import hdrs, web

from registry.access.authorization import Requirement
from registry.access.principal import Action
from registry.http.addresses import query_of
from registry.http.app_keys import DEADLINES
from registry.http.error_responses import log_error
from registry.http.request_body import body_pieces
from registry.http.request_headers import read_preferences
from registry.http.views.resource_view import ResourceView
from registry.jsonapi.error_types import (
    InvalidIdempotencyKey,
    PreconditionFailed,
)
from registry.jsonapi.query_parameters import parse_row_options
from registry.offloading import pause
from registry.protocol import IDEMPOTENCY_KEY, NDJSON_TYPE
from registry.rows.row_reader import RowReader
from registry.rows.rows import Row
from registry.storage import RowImport

_BATCH_ROWS = 250
"""Rows of a transaction. Other writes wait for one at most."""

_READ_AHEAD = 2**18
"""Bytes that are parsed at once. A file that is not of its charset is mostly refused as a whole, as
the first are parsed before a row is stored."""

_ROWS_PER_TURN = 32
"""Rows, also empty ones, that are read before the event loop serves others: about 1 ms."""

_KEPT_IN_MEMORY = 2**18
"""Bytes of a report that wait in memory for the client to read them; more are in a file."""

_MAX_PART = 2**16
"""Bytes of a report that are written before waiting for the client."""


async def import_rows(view: ResourceView, charset: str) -> web.StreamResponse:
    """Store the rows of the body; respond with a report, which begins when the first are stored.

    charset: as the media type names it. Raises RequestError, InvalidFile, UnsupportedMediaType and
    others, for an error document, if a file is refused as a whole before the first row is stored.
    """
    request = view.request
    view.negotiate()
    preferences = read_preferences(request)
    options = parse_row_options(query_of(request).items(), view.scope)
    reader = RowReader(view.resource, view.graph, options, charset)
    if hdrs.IF_MATCH in request.headers:
        raise PreconditionFailed
    if IDEMPOTENCY_KEY in request.headers:
        raise InvalidIdempotencyKey(
            f"A file of rows has no `{IDEMPOTENCY_KEY}`: its rows are found by their key."
        )
    rolls_back = preferences.rolls_back
    headers = {hdrs.CONTENT_TYPE: NDJSON_TYPE, "X-Accel-Buffering": "no"}  # of nginx
    headers |= preferences.acknowledge(is_replayed=False)
    view.app[DEADLINES].stop()  # the client determines how long it takes
    rows = view.repository.row_import(view.author, view.client, rolls_back=rolls_back)
    response = web.StreamResponse(headers=headers)
    async with (
        aclosing(_batches(reader, request)) as batches,
        _Report(response, request) as report,
    ):
        await _store(view, batches, reader, rows, report)
        await report.end()
    return response


async def _store(
    view: ResourceView,
    batches: AsyncGenerator[Sequence[Row]],
    reader: RowReader,
    rows: RowImport,
    report: "_Report",
) -> None:
    """Store and report the batches, and once the report has begun, the error that ends them."""
    following = asyncio.ensure_future(anext(batches, None))
    counts: dict[str, Any] = {"rows": 0, **rows.effects, "invalid": 0}
    try:
        while batch := await following:
            if not report.has_begun:
                view.authorize(Requirement(Action.WRITE, each) for each in reader.linked.values())
                if reader.ignored:
                    counts["ignored"] = reader.ignored
            # Read while the database works.
            following = asyncio.ensure_future(anext(batches, None))
            await view.verify_token()
            valid = [row for row in batch if not row.errors]
            refused = await rows.write(valid) if valid else {}
            for row in batch:
                if errors := row.errors or reader.report(row, refused.get(row.line, ())):
                    counts["invalid"] += 1
                    report.write({"errors": errors})
            counts["rows"] += len(batch)
            report.write({"meta": counts})
        report.write({"meta": counts | {"complete": True}})
    except Exception as error:
        if not report.has_begun:
            raise
        reported = log_error(view.request, error)
        report.write({"errors": [each.to_object() for each in reported.errors]})
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await following


async def _chunks(request: web.Request) -> AsyncGenerator[tuple[bytes, bool]]:
    """Yield the body in larger pieces than it arrives in, each with whether it is the last."""
    waiting = bytearray()
    async with aclosing(body_pieces(request)) as pieces:
        async for piece in pieces:
            waiting += piece
            if len(waiting) >= _READ_AHEAD:
                yield bytes(waiting), False
                waiting.clear()
    yield bytes(waiting), True


async def _batches(reader: RowReader, request: web.Request) -> AsyncGenerator[Sequence[Row]]:
    """Yield the rows of a file. Raises what the reader raises."""
    batch = list[Row]()
    async with aclosing(_chunks(request)) as chunks:
        async for chunk, is_last in chunks:
            for count, row in enumerate(reader.read(chunk, is_last=is_last), 1):
                if row is not None:
                    batch.append(row)
                if len(batch) == _BATCH_ROWS:
                    yield batch
                    batch = []
                elif count % _ROWS_PER_TURN == 0:
                    await pause()
    if batch:
        yield batch


class _Report:
    """The lines of a report, sent beside the import, as fast as the client reads them.

    Those that it has not read wait in memory, and many in a temporary file: a client may send all
    of its file before.
    """

    def __init__(self, response: web.StreamResponse, request: web.Request) -> None:
        self._response, self._request = response, request
        self._waiting = SpooledTemporaryFile(_KEPT_IN_MEMORY)  # noqa: SIM115 - closed at the exit
        self._written = self._sent = 0
        self._has_more, self._is_over = asyncio.Event(), False
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._sender is not None:
                self._sender.cancel()
                await asyncio.wait([self._sender])
        finally:
            self._waiting.close()

    @property
    def has_begun(self) -> bool:
        """Whether a part of the report is on its way to the client."""
        return self._sender is not None

    def write(self, line: dict[str, Any]) -> None:
        """Add a line."""
        data = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        self._waiting.seek(self._written)
        self._waiting.write(data)
        self._written += len(data)
        self._has_more.set()
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())

    async def end(self) -> None:
        """Wait until the client has read all. Raises ConnectionError if it has disconnected."""
        self._is_over = True
        self._has_more.set()
        if self._sender is not None:
            await self._sender

    async def _send(self) -> None:
        await self._response.prepare(self._request)
        while not self._is_over or self._sent < self._written:
            await self._has_more.wait()
            self._waiting.seek(self._sent)
            piece = self._waiting.read(_MAX_PART)
            self._sent += len(piece)
            if self._sent == self._written:
                self._waiting.truncate(0)
                self._sent = self._written = 0
                self._has_more.clear()
            if piece:
                await self._response.write(piece)
        await self._response.write_eof()

"""The base class of the views below the path of a type: they read, write and show resources.

A document is in memory as a whole, with an entity tag, or a stream; a list may be CSV instead.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import partial
from itertools import chain
from typing import ClassVar, TypeAlias

from aiohttp import hdrs, web

from registry.access.authorization import required_by_change, required_by_query
from registry.compound import CompoundStream, resolve, single_chunk
from registry.csv_format import CsvTable
from registry.http.request_headers import make_etag, preconditions, read_preferences
from registry.http.responses import POSITION
from registry.http.sending import Streamed
from registry.http.views.document_view import DocumentView
from registry.jsonapi.changes import NO_CHANGE, Change, Identifier, Verb, Write
from registry.jsonapi.content_negotiation import prefers
from registry.jsonapi.documents import (
    LARGE_PART,
    Envelope,
    Part,
    encode_document,
    encode_stream,
    written_linkage,
)
from registry.jsonapi.error_types import InvalidPreference, NotFound, Overloaded, Unavailable
from registry.jsonapi.pagination import page_links, page_meta
from registry.jsonapi.query import NO_PARAMETERS, IncludePath, QueryScope
from registry.jsonapi.resource_objects import path_of, resource_objects
from registry.model.graph import Graph
from registry.model.implicit_attributes import parse_id
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.offloading import offload, pause
from registry.protocol import CSV_TYPE, MEDIA_TYPE
from registry.storage import Listing, Snapshot, WriteResult

JSONAPI: Mapping[str, str] = {hdrs.CONTENT_TYPE: MEDIA_TYPE}

Chunks: TypeAlias = AsyncIterable[Sequence[Record]]
"""The primary records of a document, which is made while they are read."""


class ResourceView(DocumentView):
    """A view below the path of a type.

    scope: of the query parameters, for a single resource of the type. graph: all types. snapshot:
    what the response shows. change: that of the write, None for a read. start: the path that leads
    to the primary data, if these are identifiers. represented: the resource that the response
    shows, or whose linkage it shows; None for others. table: for a list as CSV. status and headers
    are those of a successful response.
    """

    scope: ClassVar[QueryScope]
    resource: ClassVar[ResourceType]
    graph: ClassVar[Graph]
    snapshot: Snapshot
    change: Change | None = None
    start: IncludePath = ()
    represented: Record | None = None
    table: CsvTable | None = None
    status = 200
    headers: Mapping[str, str] = JSONAPI

    @property
    def resource_id(self) -> int:
        """The id in the path. Raises NotFound if it is not a valid id."""
        text = self.request.match_info["id"]
        id_ = parse_id(text)
        if id_ is None:
            raise NotFound.resource(self.resource.type, text)
        return id_

    def begin_reading(self, scope: QueryScope) -> None:
        """Set `query` and `snapshot`. Raises as `negotiate`, or RequestError."""
        self.negotiate()
        self.query = self.parse_query(scope)
        if self.query is not NO_PARAMETERS:
            self.authorize(required_by_query(self.query, scope))
        self.snapshot = self.repository.snapshot()

    def begin_listing(self, scope: QueryScope) -> None:
        """Begin reading, also a list as CSV if `Accept` prefers that."""
        self.begin_reading(scope)
        if not scope.many or not prefers(CSV_TYPE, self.request.headers.getall(hdrs.ACCEPT, ())):
            return
        resource = scope.resource
        self.table = CsvTable(self.query, resource, scope.graph)
        self.query = self.table.query
        # What `include` itself names was authorized before.
        self.authorize(required_by_query(self.query, scope, f"fields[{resource.type}]"))
        self.headers = {
            hdrs.CONTENT_TYPE: f"{CSV_TYPE}; charset=utf-8; header=present",
            hdrs.CONTENT_DISPOSITION: f'attachment; filename="{resource.collection}.csv"',
        }

    def authorize_write(self, change: Change) -> None:
        """Raise RequestError for a query or a document that the access token does not allow."""
        by_query = required_by_query(self.query, self.scope)
        self.authorize(chain(by_query, required_by_change(change, self.graph)))

    async def write(self, verb: Verb, change: Change = NO_CHANGE) -> WriteResult:
        """Write the resource or its links if the preconditions hold, and return the result.

        Raises InvalidPreference for a dry run, PreconditionFailed, and what the repository raises.
        """
        if read_preferences(self.request).rolls_back:
            raise InvalidPreference
        resource, id_ = self.resource, self.resource_id
        allowed, excluded = preconditions(self.request, resource, id_)
        target = Identifier(id_, str(id_), None)
        write = Write(verb, resource, target, change, allowed, excluded)
        (result,) = await self.apply([write])
        return result

    async def respond_with_result(self, result: WriteResult) -> web.StreamResponse:
        """Respond with the resource that was written.

        With `include`, it is shown as it is at the commit, like what is included. Raises NotFound
        if another request has deleted it in the same transaction, or Unavailable.
        """
        self.change, self.snapshot = result.write.change, self.repository.snapshot(result.time)
        record = result.record
        if self.query.include and not result.is_replayed:
            try:
                record = await self.snapshot.get(self.resource, record[ID])
            except Overloaded as error:  # which says that nothing was changed
                raise Unavailable from error
        return await self.respond_with_resource(record)

    async def respond_with_resource(self, record: Record) -> web.StreamResponse:
        """Respond with the resource of the path, or the one that was written."""
        path = path_of(self.resource, record[ID])
        if self.status == 201:
            self.headers = {**self.headers, hdrs.LOCATION: path}
        self.represented = record
        envelope = Envelope({"self": path}, many=False)
        return await self.respond_with_records(self.resource, [record], envelope)

    async def respond_with_records(
        self, resource: ResourceType, records: Sequence[Record], envelope: Envelope
    ) -> web.StreamResponse:
        """Respond with resources in memory, or with a stream if these have many related ones."""
        query, change = self.query, self.change
        compound = await resolve(resource, records, query, self.snapshot, self.graph, self.start)
        if compound is None:
            encode_pieces = partial(self._pieces, resource, envelope)
            return self._stream(self._in_slot(records), encode_pieces)

        def encode() -> bytes:
            data = self.primary_data(Part(resource, records, compound.linkage))
            return encode_document(data, envelope, compound, query, self.graph)

        size = len(records) + compound.size + (change.size if change else 0)
        return await self._respond(encode, size)

    async def respond_with_listing(
        self, resource: ResourceType, listing: Listing, links: Mapping[str, str]
    ) -> web.StreamResponse:
        """Respond with the page that the query names, or stream the whole collection.

        links: of the document, besides those of pages.
        """
        page, table = self.query.page, self.table
        if page is None:
            pieces = partial(self._pieces, resource, Envelope(links))
            encode = partial(self._rows, table) if table else pieces
            return self._stream(listing.chunks(self.client), encode)
        window = await listing.window(page)
        if table:
            rows = [piece async for piece in self._rows(table, single_chunk(window.records))]
            return await self._respond(lambda: b"".join(rows), 0)
        all_links = {**links, **page_links(page, window, links["self"])}
        envelope = Envelope(all_links, page_meta(page, window))
        return await self.respond_with_records(resource, window.records, envelope)

    async def _respond(self, encode: Callable[[], bytes], size: int) -> web.Response:
        """Respond with a document in memory, which has an entity tag.

        encode: returns it, in a thread if `size` is large. size: in resources and identifiers.
        """

        def encode_with_tag() -> tuple[bytes, str]:
            body = encode()
            return body, make_etag(body, self.resource, self.represented)

        body, etag = await offload(encode_with_tag, size=size)
        headers = {**self.headers, hdrs.ETAG: f'"{etag}"'}
        if self.change is None:  # else it may show an earlier time
            headers[POSITION] = await self.repository.position_of(self.snapshot)
        return web.Response(status=self.status, body=body, headers=headers)

    def primary_data(self, part: Part) -> list[str]:
        """Return the resource objects of the primary data."""
        shown = self._with_written(part) if self.change else part
        return resource_objects(*shown, self.query)

    def _stream(
        self,
        chunks: AbstractAsyncContextManager[Chunks],
        encode: Callable[[Chunks], AsyncGenerator[bytes]],
    ) -> Streamed:
        """Respond with a document that is made while it is sent. encode: yields its pieces."""

        async def pieces() -> AsyncGenerator[bytes]:
            async with chunks as primary, aclosing(encode(primary)) as encoded:
                async for piece in encoded:
                    yield piece

        shown = self.snapshot if self.change is None else None
        return Streamed(pieces(), shown, self.status, self.headers)

    @asynccontextmanager
    async def _in_slot(self, records: Sequence[Record]) -> AsyncIterator[Chunks]:
        """Yield the records of a stream. Raises Overloaded if a read finds no free slot."""
        is_refusable = self.change is None  # what was written is not to be sent again
        streams = self.repository.bulkheads.streams
        async with streams.slot(self.client, is_refusable=is_refusable):
            yield single_chunk(records)

    async def _pieces(
        self, resource: ResourceType, envelope: Envelope, chunks: Chunks
    ) -> AsyncGenerator[bytes]:
        """Yield a document of resources, or of their identifiers, in pieces."""
        stream = CompoundStream(resource, self.query, self.snapshot, self.graph, self.start)
        primary = stream.identified(chunks) if self.start else self._parts(stream, chunks)
        async with aclosing(primary), aclosing(stream.included()) as rest:
            included = None if self.query.include is None else rest
            async with aclosing(encode_stream(primary, included, self.query, envelope)) as pieces:
                async for piece in pieces:
                    yield piece

    async def _parts(self, stream: CompoundStream, chunks: Chunks) -> AsyncGenerator[Part]:
        """Yield the primary resources, with the relationships that a write has changed."""
        async with aclosing(stream.primary(chunks)) as parts:
            async for part in parts:
                yield self._with_written(part)

    def _with_written(self, part: Part) -> Part:
        """Return a part with the relationships that the write has changed, of its only record."""
        if self.change is None or not self.change.linkages:
            return part
        name = self.resource.type
        shown = {**part.linkage.get(name, {})}
        for relationship, written in written_linkage(part.records[0], self.change).items():
            shown[relationship] = {**written, **shown.get(relationship, {})}
        return part._replace(linkage={**part.linkage, name: shown})

    async def _rows(self, table: CsvTable, chunks: Chunks) -> AsyncGenerator[bytes]:
        """Yield a CSV document in pieces."""
        prefix, query = table.header, table.query
        async for records in chunks:
            compound = await resolve(
                table.resource, records, query, self.snapshot, self.graph, is_bounded=False
            )
            assert compound is not None  # noqa: S101 - for mypy: it is not bounded
            encode = partial(table.encode, records, compound)
            await pause()
            size = len(records) + compound.size
            yield prefix + await offload(encode, size=size, limit=LARGE_PART)
            prefix = b""
        yield prefix

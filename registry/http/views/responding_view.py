"""What views respond with: a resource or a list, as a document in memory, a stream, or CSV."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial

from aiohttp import hdrs, web

from registry.compound import CompoundStream, resolve, single_chunk
from registry.csv_format import CsvTable
from registry.http.request_headers import make_etag
from registry.http.responses import POSITION, position
from registry.http.sending import Streamed
from registry.http.views.document_view import ResourceView
from registry.jsonapi.changes import Change
from registry.jsonapi.documents import (
    LARGE_PART,
    PLAIN,
    Envelope,
    Part,
    Relationships,
    array,
    encode_document,
    encode_stream,
    path_of,
    resource_objects,
    written_linkage,
)
from registry.jsonapi.pagination import page_links, page_meta
from registry.jsonapi.query import Query
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.offloading import offload, pause
from registry.protocol import CSV_TYPE, MEDIA_TYPE
from registry.storage import Listing, Snapshot

JSONAPI: Mapping[str, str] = {hdrs.CONTENT_TYPE: MEDIA_TYPE}


class RespondingView(ResourceView):
    """A view that responds with resources, or with their identifiers.

    Its methods take the snapshot that was read; None, or the change, for the response to a write,
    which may show an earlier time.
    """

    async def respond_with_resource(
        self,
        record: Record,
        query: Query,
        snapshot: Snapshot,
        change: Change | None = None,
        status: int = 200,
        headers: Mapping[str, str] = JSONAPI,
    ) -> web.StreamResponse:
        """Respond with a single resource. change: of a write, whose relationships are shown."""
        resource = self.resource
        path = path_of(resource, record[ID])
        shown = None if change else snapshot
        if status == 201:
            headers = {**headers, hdrs.LOCATION: path}
        compound = PLAIN
        if query.include is not None or query.counts:
            resolved = await resolve(resource, [record], query, snapshot, self.graph)
            if resolved is None:
                pieces = self.in_slot(self._pieces_of(record, query, snapshot, change))
                return Streamed(pieces, shown, status, headers)
            compound = resolved
        relationships = _with_written(compound.relationships, resource, record, change)

        def encode() -> bytes:
            (data,) = resource_objects(resource, [record], relationships, query)
            return encode_document(data, compound, query, self.graph, {"self": path})

        size = (0 if compound is PLAIN else compound.size) + (change.size if change else 0)
        return await self.respond(encode, size, shown, record, status, headers)

    def _pieces_of(
        self, record: Record, query: Query, snapshot: Snapshot, change: Change | None
    ) -> AsyncGenerator[bytes]:
        """Return the document of a resource that has too many related ones to be in memory."""
        resource = self.resource
        stream = CompoundStream(resource, query, snapshot, self.graph)

        async def primary() -> AsyncGenerator[Part]:
            async for part in stream.primary(single_chunk([record])):
                relationships = _with_written(part.relationships, resource, record, change)
                yield part._replace(relationships=relationships)

        envelope = Envelope({"self": path_of(resource, record[ID])}, many=False)
        return document_pieces(stream, primary(), query, envelope)

    async def respond_with_listing(
        self,
        resource: ResourceType,
        listing: Listing,
        query: Query,
        snapshot: Snapshot,
        table: CsvTable | None,
    ) -> web.StreamResponse:
        """Respond with the page that the query names, or stream the whole collection.

        table: None for JSON:API.
        """
        content = _content_headers(table)
        if query.page is None:
            pieces = self._all_pieces(resource, listing, query, snapshot, table)
            return Streamed(pieces, snapshot, 200, content)
        window, url = await listing.window(query.page), self.url
        records, is_bounded = window.records, table is None
        compound = await resolve(
            resource, records, query, snapshot, self.graph, is_bounded=is_bounded
        )
        links = {"self": url, **page_links(query.page, window, url)}
        meta = page_meta(query.page, window)
        if compound is None:
            stream = CompoundStream(resource, query, snapshot, self.graph)
            primary = stream.primary(single_chunk(records))
            pieces = document_pieces(stream, primary, query, Envelope(links, meta))
            return Streamed(self.in_slot(pieces), snapshot, 200, content)

        def encode() -> bytes:
            if table:
                return table.header + table.encode(records, compound)
            data = array(resource_objects(resource, records, compound.relationships, query))
            return encode_document(data, compound, query, self.graph, links, meta)

        size = len(records) + compound.size
        return await self.respond(encode, size, snapshot, headers=content)

    async def _all_pieces(
        self,
        resource: ResourceType,
        listing: Listing,
        query: Query,
        snapshot: Snapshot,
        table: CsvTable | None,
    ) -> AsyncGenerator[bytes]:
        """Yield the document of a whole collection in pieces."""
        async with listing.chunks(self.client) as chunks:
            if table:
                encoded = self._table_pieces(table, chunks, snapshot)
            else:
                stream = CompoundStream(resource, query, snapshot, self.graph)
                envelope = Envelope({"self": self.url})
                encoded = document_pieces(stream, stream.primary(chunks), query, envelope)
            async with aclosing(encoded) as pieces:
                async for piece in pieces:
                    yield piece

    async def _table_pieces(
        self, table: CsvTable, chunks: AsyncIterable[Sequence[Record]], snapshot: Snapshot
    ) -> AsyncGenerator[bytes]:
        """Yield the CSV document of a whole collection in pieces."""
        prefix, query = table.header, table.query
        async for records in chunks:
            compound = await resolve(
                table.resource, records, query, snapshot, self.graph, is_bounded=False
            )
            assert compound is not None  # noqa: S101 - for mypy: it is not bounded
            encode = partial(table.encode, records, compound)
            await pause()
            size = len(records) + compound.size
            yield prefix + await offload(encode, size=size, limit=LARGE_PART)
            prefix = b""
        yield prefix

    async def in_slot(self, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Yield the pieces of a body in a slot of the streams. Raises Overloaded without one."""
        streams = self.repository.bulkheads.streams
        async with streams.slot(self.client), aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def respond(
        self,
        encode: Callable[[], bytes],
        size: int,
        snapshot: Snapshot | None,
        record: Record | None = None,
        status: int = 200,
        headers: Mapping[str, str] = JSONAPI,
    ) -> web.Response:
        """Respond with a document in memory, which has an entity tag.

        encode: returns it, in a thread if `size` is large. size: in resources and identifiers.
        record: the resource that the document represents, or whose linkage it is.
        """

        def encode_with_tag() -> tuple[bytes, str]:
            body = encode()
            return body, make_etag(body, self.resource, record)

        body, etag = await offload(encode_with_tag, size=size)
        headers = {**headers, hdrs.ETAG: f'"{etag}"'}
        if snapshot is not None:
            headers[POSITION] = await position(snapshot, self.repository)
        return web.Response(status=status, body=body, headers=headers)


async def document_pieces(
    stream: CompoundStream,
    primary: AsyncGenerator[Part],
    query: Query,
    envelope: Envelope,
) -> AsyncGenerator[bytes]:
    """Yield a document in pieces. primary: the parts of its data, which `stream` reads."""
    async with aclosing(primary), aclosing(stream.included()) as rest:
        included = None if query.include is None else rest
        async with aclosing(encode_stream(primary, included, query, envelope)) as pieces:
            async for piece in pieces:
                yield piece


def _content_headers(table: CsvTable | None) -> Mapping[str, str]:
    if table is None:
        return JSONAPI
    return {
        hdrs.CONTENT_TYPE: f"{CSV_TYPE}; charset=utf-8; header=present",
        hdrs.CONTENT_DISPOSITION: f'attachment; filename="{table.resource.collection}.csv"',
    }


def _with_written(
    relationships: Relationships, resource: ResourceType, record: Record, change: Change | None
) -> Relationships:
    """Return the relationships of a document with those that its write has changed."""
    if change is None or not change.linkages:
        return relationships
    linkage = relationships.linkage
    shown = {**linkage.get(resource.type, {})}
    for name, written in written_linkage(record, change).items():
        shown[name] = {**written, **shown.get(name, {})}
    return relationships._replace(linkage={**linkage, resource.type: shown})

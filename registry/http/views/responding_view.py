"""What views respond with: a resource or a list, as a document in memory, a stream, or CSV."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeAlias

from aiohttp import hdrs, web

from registry.access.authorization import required_by_query
from registry.compound import CompoundStream, resolve, single_chunk
from registry.csv_format import CsvTable
from registry.http.request_headers import make_etag
from registry.http.responses import POSITION
from registry.http.sending import Streamed
from registry.http.views.document_view import ResourceView
from registry.jsonapi.content_negotiation import prefers
from registry.jsonapi.documents import (
    LARGE_PART,
    Envelope,
    Part,
    encode_document,
    encode_stream,
    written_linkage,
)
from registry.jsonapi.pagination import page_links, page_meta
from registry.jsonapi.query import QueryScope
from registry.jsonapi.resource_objects import (
    Relationships,
    array,
    path_of,
    resource_objects,
)
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.offloading import offload, pause
from registry.protocol import CSV_TYPE, MEDIA_TYPE
from registry.storage import Listing

JSONAPI: Mapping[str, str] = {hdrs.CONTENT_TYPE: MEDIA_TYPE}

Chunks: TypeAlias = AsyncIterable[Sequence[Record]]
"""The primary records of a document, which is made while they are read."""


class RespondingView(ResourceView):
    """A view that responds with resources, or with their identifiers."""

    def begin_listing(self, scope: QueryScope) -> CsvTable | None:
        """Begin reading; return the table for a list if `Accept` prefers CSV."""
        self.begin_reading(scope)
        if not scope.many or not prefers(CSV_TYPE, self.request.headers.getall(hdrs.ACCEPT, ())):
            return None
        table = CsvTable(self.query, scope.resource, scope.graph)
        # What `include` itself names was authorized before.
        self.authorize(required_by_query(table.query, scope, f"fields[{scope.resource.type}]"))
        self.query = table.query
        return table

    async def respond_with_resource(
        self, record: Record, status: int = 200, headers: Mapping[str, str] = JSONAPI
    ) -> web.StreamResponse:
        """Respond with the resource of the path, or the one that was written."""
        path = path_of(self.resource, record[ID])
        if status == 201:
            headers = {**headers, hdrs.LOCATION: path}
        envelope = Envelope({"self": path}, many=False)
        return await self.respond_with_records(
            self.resource, [record], envelope, record, status, headers
        )

    async def respond_with_records(
        self,
        resource: ResourceType,
        records: Sequence[Record],
        envelope: Envelope,
        record: Record | None = None,
        status: int = 200,
        headers: Mapping[str, str] = JSONAPI,
    ) -> web.StreamResponse:
        """Respond with resources in memory, or with a stream if these have many related ones.

        record: as for `respond`.
        """
        query, change = self.query, self.change
        compound = await resolve(resource, records, query, self.snapshot, self.graph)
        if compound is None:
            pieces = self.pieces(resource, envelope, single_chunk(records))
            return self.stream(self.in_slot(pieces), status, headers)

        def encode() -> bytes:
            relationships = self._with_written(compound.relationships, records)
            objects = resource_objects(resource, records, relationships, query)
            data = array(objects) if envelope.many else objects[0] if objects else "null"
            return encode_document(data, compound, query, self.graph, envelope.links, envelope.meta)

        size = len(records) + compound.size + (change.size if change else 0)
        return await self.respond(encode, size, record, status, headers)

    async def respond_with_listing(
        self, resource: ResourceType, listing: Listing, table: CsvTable | None
    ) -> web.StreamResponse:
        """Respond with the page that the query names, or stream the whole collection.

        table: None for JSON:API.
        """
        page, url, headers = self.query.page, self.url, JSONAPI
        if table:
            headers = {
                hdrs.CONTENT_TYPE: f"{CSV_TYPE}; charset=utf-8; header=present",
                hdrs.CONTENT_DISPOSITION: f'attachment; filename="{resource.collection}.csv"',
            }
        if page is None:
            envelope = Envelope({"self": url})
            encode = (
                partial(self._rows, table) if table else partial(self.pieces, resource, envelope)
            )
            return self.stream(self.all_pieces(listing, encode), headers=headers)
        window = await listing.window(page)
        if table:
            rows = [piece async for piece in self._rows(table, single_chunk(window.records))]
            return await self.respond(lambda: b"".join(rows), 0, headers=headers)
        links = {"self": url, **page_links(page, window, url)}
        envelope = Envelope(links, page_meta(page, window))
        return await self.respond_with_records(resource, window.records, envelope)

    async def respond(
        self,
        encode: Callable[[], bytes],
        size: int,
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
        if self.change is None:  # else it may show an earlier time
            headers[POSITION] = await self.repository.position_of(self.snapshot)
        return web.Response(status=status, body=body, headers=headers)

    def stream(
        self,
        pieces: AsyncGenerator[bytes],
        status: int = 200,
        headers: Mapping[str, str] = JSONAPI,
    ) -> Streamed:
        """Respond with a document that is made while it is sent."""
        return Streamed(pieces, self.snapshot if self.change is None else None, status, headers)

    async def in_slot(self, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Yield the pieces of a body in a slot of the streams. Raises Overloaded without one."""
        streams = self.repository.bulkheads.streams
        async with streams.slot(self.client), aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def all_pieces(
        self, listing: Listing, encode: Callable[[Chunks], AsyncGenerator[bytes]]
    ) -> AsyncGenerator[bytes]:
        """Yield the document of a whole list in pieces. encode: yields them for its records."""
        async with listing.chunks(self.client) as chunks, aclosing(encode(chunks)) as pieces:
            async for piece in pieces:
                yield piece

    async def pieces(
        self, resource: ResourceType, envelope: Envelope, chunks: Chunks
    ) -> AsyncGenerator[bytes]:
        """Yield a document of resources in pieces."""
        stream = CompoundStream(resource, self.query, self.snapshot, self.graph)
        primary = self._parts(stream, chunks)
        async with aclosing(primary), aclosing(stream.included()) as rest:
            included = None if self.query.include is None else rest
            async with aclosing(encode_stream(primary, included, self.query, envelope)) as pieces:
                async for piece in pieces:
                    yield piece

    async def _parts(self, stream: CompoundStream, chunks: Chunks) -> AsyncGenerator[Part]:
        """Yield the primary resources, with the relationships that a write has changed."""
        async with aclosing(stream.primary(chunks)) as parts:
            async for part in parts:
                shown = self._with_written(part.relationships, part.records)
                yield part._replace(relationships=shown)

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

    def _with_written(
        self, relationships: Relationships, records: Sequence[Record]
    ) -> Relationships:
        """Return relationships with those that the write has changed, of its only record."""
        if self.change is None or not self.change.linkages:
            return relationships
        name, linkage = self.resource.type, relationships.linkage
        shown = {**linkage.get(name, {})}
        for relationship, written in written_linkage(records[0], self.change).items():
            shown[relationship] = {**written, **shown.get(relationship, {})}
        return relationships._replace(linkage={**linkage, name: shown})

"""The views of a type, and responses with lists: a page, or a stream of all, as JSON:API or CSV."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from aiohttp import hdrs, web

from registry.compound import CompoundStream, resolve
from registry.csv_format import CsvTable
from registry.http.compression import MIN_BYTES, GzipWriter, compresses
from registry.http.request_headers import is_current, read_preferences
from registry.http.responses import MAX_WRITE, DocumentResponse, write_parts
from registry.http.views.document_view import ResourceView
from registry.jsonapi.authorization import required_by_change, required_by_query
from registry.jsonapi.changes import NEW, Verb, Write
from registry.jsonapi.content_negotiation import prefers
from registry.jsonapi.documents import (
    LARGE_PART,
    array,
    encode_collection,
    encode_document,
    resource_objects,
)
from registry.jsonapi.error_types import InvalidParameter, PreconditionFailed
from registry.jsonapi.pagination import page_links, page_meta
from registry.jsonapi.query import Query, QueryScope
from registry.jsonapi.request_documents import load
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource_type import ResourceType
from registry.offloading import offload, pause
from registry.protocol import CSV_TYPE, MEDIA_TYPE
from registry.storage import Listing, Snapshot

_NO_INCLUDE = "`include` is not possible with `Prefer: tx=rollback`, as it reads what is stored."


class DetailView(ResourceView):
    """One resource (JSON:API 1.0, Fetching, Updating and Deleting Resources)."""

    async def get(self) -> DocumentResponse:
        """Respond with the resource."""
        self.negotiate()
        query = self.read_query(self.scope)
        snapshot = self.repository.snapshot()
        record = await snapshot.get(self.resource, self.resource_id)
        return await self.respond_with_resource(record, query, snapshot)

    async def patch(self) -> DocumentResponse:
        """Change the attributes and relationships in the body, all or none."""
        load_change = partial(load, resource=self.resource, verb=Verb.UPDATE)
        query, change, _ = await self.read_request(load_change, required_by_change, self.scope)
        result = await self.write(Verb.UPDATE, change)
        snapshot = self.repository.snapshot(result.time)
        record = await self.written_record(result, query, snapshot)
        return await self.respond_with_resource(record, query, snapshot, change)

    async def delete(self) -> web.Response:
        """Delete the resource; resources linked to it stay, unlinked."""
        self.negotiate()
        self.read_query(None)
        await self.write(Verb.REMOVE)
        return web.Response(status=204)


class CollectionView(ResourceView):
    """All resources of a type (JSON:API 1.0, Fetching and Creating Resources)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the collection, filtered, sorted and paged by the query."""
        query, table = read_listing(self, replace(self.scope, many=True))
        snapshot = await self.repository.snapshot_for(self.resource, query)
        listing = Listing(snapshot, self.resource, query)
        return await respond_with_listing(self, self.resource, listing, query, snapshot, table)

    async def post(self) -> DocumentResponse:
        """Create a resource, or update one as the request prefers.

        The response has the writable attributes unless `fields` is sent. Raises InvalidParameter
        for `include` in a dry run, as related resources are read after it.
        """
        preferences = read_preferences(self.request)
        merges = preferences.merges
        load_change = partial(load, resource=self.resource, verb=Verb.ADD, merges=merges)
        query, change, key = await self.read_request(
            load_change, required_by_change, self.scope, preferences=preferences
        )
        if is_current(self.request, None):
            raise PreconditionFailed
        if preferences.rolls_back and query.include is not None:
            raise InvalidParameter(_NO_INCLUDE, parameter="include")
        query = replace(query, fields={self.resource.type: self.resource.writable, **query.fields})
        write = Write(Verb.ADD, self.resource, NEW, change, merges=merges)
        (result,) = await self.repository.write(
            [write.written_by(self.author)], key, rolls_back=preferences.rolls_back
        )
        snapshot = self.repository.snapshot(result.time)
        record = await self.written_record(result, query, snapshot)
        status = 201 if result.write.verb is Verb.ADD else 200
        headers = preferences.acknowledge(is_replayed=result.is_replayed)
        return await self.respond_with_resource(record, query, snapshot, change, status, headers)


def read_listing(view: ResourceView, scope: QueryScope) -> tuple[Query, CsvTable | None]:
    """Return the query of a request, and the table for a list if `Accept` prefers CSV."""
    view.negotiate()
    query = view.read_query(scope)
    if not scope.many or not prefers(CSV_TYPE, view.request.headers.getall(hdrs.ACCEPT, ())):
        return query, None
    table = CsvTable(query, scope.resource, scope.graph)
    # What `include` itself names was authorized before.
    view.authorize(required_by_query(table.query, scope, f"fields[{scope.resource.type}]"))
    return table.query, table


async def respond_with_listing(
    view: ResourceView,
    resource: ResourceType,
    listing: Listing,
    query: Query,
    snapshot: Snapshot,
    table: CsvTable | None,
) -> web.StreamResponse:
    """Respond with the page that the query names, or stream the whole collection.

    table: None for JSON:API. A stream has no entity tag, so only `*` matches it (RFC 9110, 13.1).
    """
    content = _content_headers(table)
    if query.page is not None:
        window, url = await listing.window(query.page), view.url
        compound = await resolve(resource, window.records, query, snapshot, view.graph)
        links = {"self": url, **page_links(query.page, window, url)}
        meta = page_meta(query.page, window)

        def encode() -> bytes:
            if table:
                return table.header + table.encode(window.records, compound)
            data = array(resource_objects(resource, window.records, compound.linkage, query))
            return encode_document(data, compound, query, view.graph, links, meta)

        page = await view.encode(encode, len(window.records) + compound.size)
        return await view.respond(page, snapshot, content=content)
    if is_current(view.request, None):
        return DocumentResponse(304, b"", await view.position_header(snapshot))
    async with listing.chunks(view.client) as chunks:
        if table:
            encoded = _table_pieces(table, chunks, snapshot, view.graph)
        else:
            encoded = _document_pieces(view, resource, chunks, query, snapshot)
        async with aclosing(encoded) as pieces:
            return await _stream(view, pieces, content, snapshot)


async def _stream(
    view: ResourceView,
    pieces: AsyncIterator[bytes],
    content: dict[str, str],
    snapshot: Snapshot,
) -> web.StreamResponse:
    """Respond with the pieces of a body. content: the headers that describe it."""
    request = view.request
    response = web.StreamResponse(headers=content)
    writer: web.StreamResponse | GzipWriter = response
    # Until the beginning is ready, an error still becomes an error document.
    beginning = await _first_bytes(pieces, MIN_BYTES)
    view.deadlines.stop()
    response.headers.update(await view.position_header(snapshot))
    if compresses(request, len(beginning)):
        writer = GzipWriter(response)
    await response.prepare(request)
    if request.method == hdrs.METH_HEAD:
        return response
    await write_parts(writer.write, beginning, MAX_WRITE)
    async for piece in pieces:
        await write_parts(writer.write, piece, MAX_WRITE)
    await writer.write_eof()
    return response


def _content_headers(table: CsvTable | None) -> dict[str, str]:
    if table is None:
        return {hdrs.CONTENT_TYPE: MEDIA_TYPE}
    return {
        hdrs.CONTENT_TYPE: f"{CSV_TYPE}; charset=utf-8; header=present",
        hdrs.CONTENT_DISPOSITION: f'attachment; filename="{table.resource.collection}.csv"',
    }


async def _document_pieces(
    view: ResourceView,
    resource: ResourceType,
    chunks: AsyncIterable[Sequence[Record]],
    query: Query,
    snapshot: Snapshot,
) -> AsyncGenerator[bytes]:
    """Yield the document of a whole collection in pieces."""
    stream = CompoundStream(resource, query, snapshot, view.graph)
    async with aclosing(stream.primary(chunks)) as primary, aclosing(stream.included()) as rest:
        included = None if query.include is None else rest
        async with aclosing(encode_collection(primary, included, query, view.url)) as pieces:
            async for piece in pieces:
                yield piece


async def _table_pieces(
    table: CsvTable, chunks: AsyncIterable[Sequence[Record]], snapshot: Snapshot, graph: Graph
) -> AsyncGenerator[bytes]:
    """Yield the CSV document of a whole collection in pieces."""
    prefix = table.header
    async for records in chunks:
        compound = await resolve(table.resource, records, table.query, snapshot, graph)
        encode = partial(table.encode, records, compound)
        await pause()
        size = len(records) + compound.size
        yield prefix + await offload(encode, size=size, limit=LARGE_PART)
        prefix = b""
    yield prefix


async def _first_bytes(pieces: AsyncIterator[bytes], least: int) -> bytes:
    """Return the beginning of a body: so many bytes at least, unless it is shorter."""
    beginning = b""
    async for piece in pieces:
        beginning += piece
        if len(beginning) >= least:
            break
    return beginning

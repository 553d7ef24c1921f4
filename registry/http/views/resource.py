"""The views of a type, and responses with lists: a page, or a stream of all, as JSON:API or CSV."""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from aiohttp import hdrs, web

from registry.compound import CompoundStream, resolve, single_chunk
from registry.csv_format import CsvTable
from registry.http.request_headers import is_current, read_preferences
from registry.http.views.document_view import ResourceView
from registry.jsonapi.authorization import required_by_query
from registry.jsonapi.changes import NEW, Verb, Write
from registry.jsonapi.content_negotiation import prefers
from registry.jsonapi.documents import (
    LARGE_PART,
    Envelope,
    array,
    encode_document,
    encode_stream,
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

    async def get(self) -> web.StreamResponse:
        """Respond with the resource."""
        self.negotiate()
        query = self.read_query(self.scope)
        snapshot = self.repository.snapshot()
        record = await snapshot.get(self.resource, self.resource_id)
        return await self.respond_with_resource(record, query, snapshot)

    async def patch(self) -> web.StreamResponse:
        """Change the attributes and relationships in the body, all or none."""
        load_change = partial(load, resource=self.resource, verb=Verb.UPDATE)
        query, change, _ = await self.parse(await self.receive(), load_change, self.scope)
        self.authorize_write(query, change)
        result = await self.write(Verb.UPDATE, change)
        snapshot = self.repository.snapshot(result.time)
        record = await self.written_record(result, query, snapshot)
        return await self.respond_with_resource(record, query, snapshot, change)

    async def delete(self) -> web.Response:
        """Delete the resource; resources linked to it stay, unlinked."""
        self.negotiate()
        self.parse_query(None)
        await self.write(Verb.REMOVE)
        return web.Response(status=204)


class CollectionView(ResourceView):
    """All resources of a type (JSON:API 1.0, Fetching and Creating Resources)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the collection, filtered, sorted and paged by the query."""
        query, table = read_listing(self, replace(self.scope, many=True))
        snapshot = self.repository.snapshot()
        listing = Listing(snapshot, self.resource, query)
        return await respond_with_listing(self, self.resource, listing, query, snapshot, table)

    async def post(self) -> web.StreamResponse:
        """Create a resource, or update one as the request prefers.

        The response has the writable attributes unless `fields` is sent. Raises InvalidParameter
        for `include` in a dry run, as related resources are read after it.
        """
        preferences = read_preferences(self.request)
        merges = preferences.merges
        load_change = partial(load, resource=self.resource, verb=Verb.ADD, merges=merges)
        self.check_merge(preferences)
        body = await self.receive()
        query, change, key = await self.parse(body, load_change, self.scope, preferences)
        self.authorize_write(query, change)
        if is_current(self.request, None):
            raise PreconditionFailed
        if preferences.rolls_back and query.include is not None:
            raise InvalidParameter(_NO_INCLUDE, parameter="include")
        query = replace(
            query, fields={self.resource.type: self.resource.writable.keys(), **query.fields}
        )
        write = Write(Verb.ADD, self.resource, NEW, change, merges=merges)
        (result,) = await self.repository.write(
            [write], key, author=self.author, rolls_back=preferences.rolls_back
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
        records, is_bounded = window.records, table is None
        compound = await resolve(
            resource, records, query, snapshot, view.graph, is_bounded=is_bounded
        )
        links = {"self": url, **page_links(query.page, window, url)}
        meta = page_meta(query.page, window)
        if compound is None:
            stream = CompoundStream(resource, query, snapshot, view.graph)
            encoded = document_pieces(stream, single_chunk(records), query, Envelope(links, meta))
            return await view.stream(encoded, snapshot, content)

        def encode() -> bytes:
            if table:
                return table.header + table.encode(records, compound)
            data = array(resource_objects(resource, records, compound.linkage, query))
            return encode_document(data, compound, query, view.graph, links, meta)

        size = len(records) + compound.size
        return await view.respond(encode, size, snapshot, headers=content)
    async with listing.chunks(view.client) as chunks:
        if table:
            encoded = _table_pieces(table, chunks, snapshot, view.graph)
        else:
            stream = CompoundStream(resource, query, snapshot, view.graph)
            encoded = document_pieces(stream, chunks, query, Envelope({"self": view.url}))
        async with aclosing(encoded) as pieces:
            return await view.send(pieces, snapshot, content)


def _content_headers(table: CsvTable | None) -> dict[str, str]:
    if table is None:
        return {hdrs.CONTENT_TYPE: MEDIA_TYPE}
    return {
        hdrs.CONTENT_TYPE: f"{CSV_TYPE}; charset=utf-8; header=present",
        hdrs.CONTENT_DISPOSITION: f'attachment; filename="{table.resource.collection}.csv"',
    }


async def document_pieces(
    stream: CompoundStream,
    chunks: AsyncIterable[Sequence[Record]],
    query: Query,
    envelope: Envelope,
) -> AsyncGenerator[bytes]:
    """Yield a document in pieces. chunks: the primary resources."""
    async with aclosing(stream.primary(chunks)) as primary, aclosing(stream.included()) as rest:
        included = None if query.include is None else rest
        async with aclosing(encode_stream(primary, included, query, envelope)) as pieces:
            async for piece in pieces:
                yield piece


async def _table_pieces(
    table: CsvTable, chunks: AsyncIterable[Sequence[Record]], snapshot: Snapshot, graph: Graph
) -> AsyncGenerator[bytes]:
    """Yield the CSV document of a whole collection in pieces."""
    prefix = table.header
    async for records in chunks:
        query = table.query
        compound = await resolve(table.resource, records, query, snapshot, graph, is_bounded=False)
        assert compound is not None  # noqa: S101 - for mypy: it is not bounded
        encode = partial(table.encode, records, compound)
        await pause()
        size = len(records) + compound.size
        yield prefix + await offload(encode, size=size, limit=LARGE_PART)
        prefix = b""
    yield prefix

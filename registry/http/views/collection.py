"""The view of all resources of a type, and responses with lists: a page, or a stream of all."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from aiohttp import hdrs, web

from registry.compound.include_resolver import resolve
from registry.compound.stream import CompoundStream
from registry.http.app_keys import CORS
from registry.http.compression import MIN_BYTES, GzipWriter, compresses
from registry.http.etags import is_current
from registry.http.idempotency_header import with_replay_header
from registry.http.responses import MAX_WRITE, DocumentResponse, common_headers, request_id
from registry.http.views.document_view import ResourceView
from registry.jsonapi.authorization import required_by_change
from registry.jsonapi.changes import NEW, Verb, Write
from registry.jsonapi.documents import encode_collection, encode_document
from registry.jsonapi.error_types import PreconditionFailed
from registry.jsonapi.pagination import page_links, page_meta
from registry.jsonapi.query import Query
from registry.jsonapi.request_documents import load
from registry.jsonapi.resource_objects import array, resource_objects
from registry.model.resource_type import ResourceType
from registry.protocol import MEDIA_TYPE
from registry.storage import Listing, Snapshot


class CollectionView(ResourceView):
    """All resources of a type (JSON:API 1.0, Fetching and Creating Resources)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the collection, filtered, sorted and paged by the query."""
        self.negotiate()
        query = self.read_query(replace(self.scope, many=True))
        snapshot = await self.repository.snapshot_for(self.resource, query)
        listing = snapshot.listing(self.resource, query)
        return await respond_with_listing(self, self.resource, listing, query, snapshot)

    head = get

    async def post(self) -> DocumentResponse:
        """Create a resource; the response has its writable attributes unless `fields` is sent."""
        load_change = partial(load, resource=self.resource, creating=True)
        query, change, key = await self.read_request(load_change, required_by_change, self.scope)
        if is_current(self.request, None):
            raise PreconditionFailed
        query = replace(query, fields={self.resource.type: self.resource.writable, **query.fields})
        shows_related = bool(query.include)
        write = Write(Verb.ADD, self.resource, NEW, change, shows_related=shows_related)
        (result,) = await self.repository.write([write.written_by(self.author)], key)
        snapshot = self.repository.snapshot(result.time)
        response = await self.respond_with_resource(
            result.record, query, snapshot, change, status=201
        )
        return with_replay_header(response, is_replayed=result.is_replayed)


async def respond_with_listing(
    view: ResourceView,
    resource: ResourceType,
    listing: Listing,
    query: Query,
    snapshot: Snapshot,
) -> web.StreamResponse:
    """Respond with the page that the query names, or stream the whole collection.

    listing: of the snapshot, of resources of a type. A stream has no entity tag: of the
    preconditions, only `*` matches it (RFC 9110, 13.1).
    """
    request = view.request
    if query.page is not None:
        window, url = await listing.window(query.page), view.url
        compound = await resolve(resource, window.records, query, snapshot, view.graph)
        links = {"self": url, **page_links(query.page, window, url)}
        meta = page_meta(query.page, window)

        def encode() -> bytes:
            data = array(resource_objects(resource, window.records, compound.linkage, query))
            return encode_document(data, compound, query, view.graph, links, meta)

        size, position = len(window.records) + compound.size, await view.position_header(snapshot)
        return await view.respond(encode, size, headers=position)
    if is_current(request, None):
        return DocumentResponse(304, b"", await view.position_header(snapshot))
    headers = common_headers(request_id(request))
    headers[hdrs.CONTENT_TYPE] = MEDIA_TYPE
    response = web.StreamResponse(headers=headers)
    writer: web.StreamResponse | GzipWriter = response
    if (cors := view.app[CORS]).is_on:
        cors.add_headers(request, response.headers)
    stream = CompoundStream(resource, query, snapshot, view.graph)
    async with (
        listing.chunks(view.client) as chunks,
        aclosing(stream.primary(chunks)) as primary,
        aclosing(stream.included()) as all_included,
    ):
        included = None if query.include is None else all_included
        async with aclosing(encode_collection(primary, included, query, view.url)) as pieces:
            # Until the beginning is ready, an error still becomes an error document.
            beginning = await _first_bytes(pieces, MIN_BYTES)
            view.deadlines.stop()
            response.headers.update(await view.position_header(snapshot))
            if compresses(request, len(beginning)):
                writer = GzipWriter(response)
            await response.prepare(request)
            if request.method == hdrs.METH_HEAD:
                return response
            await _write_parts(writer, beginning)
            async for piece in pieces:
                await _write_parts(writer, piece)
    await writer.write_eof()
    return response


async def _write_parts(writer: web.StreamResponse | GzipWriter, piece: bytes) -> None:
    for start in range(0, len(piece), MAX_WRITE):
        await writer.write(piece[start : start + MAX_WRITE])


async def _first_bytes(pieces: AsyncIterator[bytes], least: int) -> bytes:
    """Return the beginning of a body: so many bytes at least, unless it is shorter."""
    beginning = b""
    async for piece in pieces:
        beginning += piece
        if len(beginning) >= least:
            break
    return beginning

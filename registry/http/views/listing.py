"""The base class of views that respond with a collection: a page, or a stream of all resources."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from aiohttp import hdrs, web

from registry.compound.stream import CompoundStream
from registry.http.app_keys import CORS
from registry.http.compression import MIN_BYTES, GzipWriter, compresses
from registry.http.etags import check_if_match, matches_if_none_match
from registry.http.responses import MAX_WRITE, DocumentResponse, common_headers, request_id
from registry.http.views.typed import TypeView
from registry.jsonapi.content_negotiation import MEDIA_TYPE
from registry.jsonapi.documents import encode_collection, encode_document
from registry.jsonapi.pagination import Window, page_links
from registry.jsonapi.query import Query
from registry.jsonapi.resource_objects import array, resource_objects
from registry.model.resource_type import ResourceType
from registry.storage import Listing, Snapshot


class ListView(TypeView):
    """A view that responds with resources of one type, all of them or a page."""

    async def respond_with_listing(
        self, resource: ResourceType, listing: Listing, query: Query, snapshot: Snapshot
    ) -> web.StreamResponse:
        """Respond with the page that the query names, or stream the whole collection.

        listing: of the snapshot. A stream has no entity tag: of the preconditions, only `*` matches
        it (RFC 9110, 13.1).
        """
        if query.page is None:
            return await self._stream(resource, listing, query, snapshot)
        window, url = await listing.window(query.page), self.url
        compound = await self.resolve(resource, window.records, query, snapshot)
        links = {"self": url, **page_links(query.page, window, url)}

        def encode() -> bytes:
            data = array(resource_objects(resource, window.records, compound.linkage, query))
            return encode_document(data, compound, query, self.graph, links, counts(window))

        return await self.respond(encode, len(window.records) + compound.size)

    async def _stream(
        self, resource: ResourceType, listing: Listing, query: Query, snapshot: Snapshot
    ) -> web.StreamResponse:
        check_if_match(self.request, None)
        if matches_if_none_match(self.request, None):
            return DocumentResponse(304, b"", {})
        headers = common_headers(request_id(self.request))
        headers[hdrs.CONTENT_TYPE] = MEDIA_TYPE
        response = web.StreamResponse(headers=headers)
        writer: web.StreamResponse | GzipWriter = response
        self.request.app[CORS].add_headers(self.request, response.headers)
        compound = CompoundStream(resource, query, snapshot, self.graph)
        async with (
            listing.chunks(self.client) as chunks,
            aclosing(compound.primary(chunks)) as primary,
            aclosing(compound.included()) as all_included,
        ):
            included = None if query.include is None else all_included
            async with aclosing(encode_collection(primary, included, query, self.url)) as pieces:
                # Until the beginning is ready, an error still becomes an error document.
                beginning = await _first_bytes(pieces, MIN_BYTES)
                self.deadlines.stop()
                if compresses(self.request, len(beginning)):
                    writer = GzipWriter(response)
                await response.prepare(self.request)
                if self.request.method == hdrs.METH_HEAD:
                    return response
                await writer.write(beginning)
                async for piece in pieces:
                    for start in range(0, len(piece), MAX_WRITE):
                        await writer.write(piece[start : start + MAX_WRITE])
        await writer.write_eof()
        return response


async def _first_bytes(pieces: AsyncIterator[bytes], least: int) -> bytes:
    """Return the beginning of a body: so many bytes at least, unless it is shorter."""
    beginning = b""
    async for piece in pieces:
        beginning += piece
        if len(beginning) >= least:
            break
    return beginning


def counts(window: Window) -> dict[str, int]:
    """Return `meta`: the number of resources in `data`, and on all pages if it was counted."""
    count = {"count": len(window.records)}
    return count if window.total is None else {**count, "total": window.total}

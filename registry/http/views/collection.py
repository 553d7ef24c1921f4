"""The view of all resources of a type, and how views respond with a collection."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

from aiohttp import hdrs, web

from registry.compound.stream import CompoundStream
from registry.http.responses import DocumentResponse, common_headers, request_id
from registry.http.views.resource import TypeView
from registry.jsonapi import content_negotiation as media
from registry.jsonapi import documents as document
from registry.jsonapi.pagination import Page, Window, page_links
from registry.jsonapi.query import Query
from registry.jsonapi.request_documents import load
from registry.jsonapi.resource_objects import array, resource_objects
from registry.model.resource import Resource
from registry.storage.reads.listings import Listing


class ListView(TypeView):
    """A view that responds with resources of one type, all of them or a page."""

    async def respond_with_listing(
        self, resource: Resource, listing: Listing, query: Query
    ) -> web.StreamResponse:
        """Respond with the page that the query names, or stream the whole collection."""
        if query.page is None:
            return await self._stream(resource, listing, query)
        return await self._respond_with_page(
            resource, await listing.window(query.page), query.page, query
        )

    async def _respond_with_page(
        self, resource: Resource, window: Window, page: Page, query: Query
    ) -> DocumentResponse:
        compound = await self.resolve(resource, window.records, query)
        url, meta = self.url, counts(window)
        links = {"self": url, **page_links(page, window, url)}
        data = array(resource_objects(resource, window.records, compound.links, query))
        return self.respond(document.whole(data, compound, query, self.graph, links, meta))

    async def _stream(
        self, resource: Resource, listing: Listing, query: Query
    ) -> web.StreamResponse:
        headers = common_headers(request_id(self.request))
        headers[hdrs.CONTENT_TYPE] = media.MEDIA_TYPE
        response = web.StreamResponse(headers=headers)
        compound = CompoundStream(resource, query, self.repository, self.graph)
        async with (
            aclosing(listing.chunks()) as chunks,
            aclosing(compound.primary(chunks)) as primary,
            aclosing(compound.included()) as included,
            aclosing(
                document.collection(
                    primary, None if query.include is None else included, query, self.url
                )
            ) as pieces,
        ):
            # Until the first piece is ready, an error still becomes an error document.
            piece = await anext(pieces)
            await response.prepare(self.request)
            if self.request.method == hdrs.METH_HEAD:
                return response
            await response.write(piece)
            async for piece in pieces:
                await response.write(piece)
        await response.write_eof()
        return response


class CollectionView(ListView):
    """All resources of a type (sections 4.2 and 4.5 of the service description)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the collection, filtered, sorted and paged by the query."""
        query = self.read_query(replace(self.scope, many=True))
        listing = await self.repository.listing(self.resource, query)
        return await self.respond_with_listing(self.resource, listing, query)

    head = get

    async def post(self) -> DocumentResponse:
        """Create a resource; the response has its writable attributes unless `fields` is sent."""
        query = self.read_query(self.scope)
        query = replace(query, fields={self.resource.type: self.resource.writable, **query.fields})
        change = load(await self.read_body(), self.resource, creating=True)
        record = await self.repository.insert(self.resource, change)
        return await self.respond_with_change(record, change, query, status=201)


def counts(window: Window) -> dict[str, int]:
    """Return `meta`: the number of resources in `data`, and on all pages if it was counted."""
    count = {"count": len(window.records)}
    return count if window.total is None else {**count, "total": window.total}

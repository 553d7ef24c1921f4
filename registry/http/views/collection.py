"""The view of all resources of a type, and how a collection is answered."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

from aiohttp import hdrs, web

from registry.compound.stream import CompoundStream
from registry.http.responses import DocumentResponse
from registry.http.views.resource import TypeView
from registry.jsonapi import content_negotiation as media
from registry.jsonapi import documents as document
from registry.jsonapi.pagination import Page, Window, page_links
from registry.jsonapi.query import Query
from registry.jsonapi.request_documents import load
from registry.jsonapi.resource_objects import resource_objects
from registry.model.resource import Resource
from registry.storage.reads.listings import Listing


class ListView(TypeView):
    """A view that answers with resources of one type, all of them or a page."""

    async def answer_listing(
        self, resource: Resource, listing: Listing, query: Query
    ) -> web.StreamResponse:
        """DocumentResponse with a page, or stream all."""
        if query.page is None:
            return await self._stream(resource, listing, query)
        return await self._answer_page(
            resource, await listing.window(query.page), query.page, query
        )

    async def _answer_page(
        self, resource: Resource, window: Window, page: Page, query: Query
    ) -> DocumentResponse:
        compound = await self.resolve(resource, window.records, query)
        objects = resource_objects(resource, window.records, compound.links, query)
        url, meta = self.url, counts(window)
        links = {"self": url, **page_links(page, window, url)}
        return self.answer(document.whole(objects, compound, query, self.graph, links, meta))

    async def _stream(
        self, resource: Resource, listing: Listing, query: Query
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: media.MEDIA_TYPE})
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
            # Until the first piece is there, a failure still gets a status of its own.
            piece = await anext(pieces)
            await response.prepare(self.request)
            if self.request.method == hdrs.METH_HEAD:
                return response
            try:
                await response.write(piece)
                async for piece in pieces:
                    await response.write(piece)
            except BaseException:
                # What was sent must not pass for a whole document.
                self._break_off()
                raise
        await response.write_eof()
        return response

    def _break_off(self) -> None:
        if self.request.transport is not None:
            self.request.transport.abort()


class CollectionView(ListView):
    """All resources of a type: section 4.2 and 4.5 of the service description."""

    async def get(self) -> web.StreamResponse:
        """Return the collection that the parameters ask for."""
        query = self.read_query(replace(self.scope, many=True))
        listing = await self.repository.listing(self.resource, query)
        return await self.answer_listing(self.resource, listing, query)

    head = get

    async def post(self) -> DocumentResponse:
        """Create a resource; the answer shows the attributes that a client may send."""
        asked = self.read_query(self.scope)
        query = replace(asked, fields={self.resource.type: self.resource.writable, **asked.fields})
        change = load(await self.read_body(), self.resource, creating=True)
        record = await self.repository.insert(self.resource, change)
        return await self.answer_change(record, change, query, status=201)


def counts(window: Window) -> dict[str, int]:
    """Return `meta`: how many resources there are in `data`, and on all pages if counted."""
    count = {"count": len(window.records)}
    return count if window.total is None else {**count, "total": window.total}

"""Class-based views: each method reads as the pipeline from request to response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import ClassVar

from aiohttp import hdrs, web

from registry import include
from registry.jsonapi import document, media, payload
from registry.jsonapi.document import Compound
from registry.jsonapi.errors import BodyTooLarge, MalformedRequest, NotFound, RequestTimeout
from registry.jsonapi.payload import Change
from registry.jsonapi.query import Query, parse
from registry.keys import GRAPH, LIMITS, REPOSITORY, SETTINGS
from registry.resource import Graph, Record, Resource
from registry.storage.repository import Repository
from registry.urls import absolute_url


class ResourceView(web.View):
    """What all views of a type share."""

    resource: ClassVar[Resource]

    @property
    def graph(self) -> Graph:
        """All types."""
        return self.request.app[GRAPH]

    @property
    def repository(self) -> Repository:
        """The stored resources."""
        return self.request.app[REPOSITORY]

    async def options(self) -> web.Response:
        """Answer with the methods of this path in `Allow`."""
        allowed = sorted(name for name in hdrs.METH_ALL if hasattr(self, name.lower()))
        return web.Response(status=204, headers={hdrs.ALLOW: ", ".join(allowed)})

    def read_query(self) -> Query:
        """Negotiate the media type and return the checked query string."""
        media.check_accept(self.request.headers.getall(hdrs.ACCEPT, []))
        return parse(self.request.query.items(), self.resource, self.graph)

    async def read_change(self, *, creating: bool) -> Change:
        """Return what the body asks for."""
        media.check_content_type(self.request.headers.get(hdrs.CONTENT_TYPE))
        media.check_content_encoding(self.request.headers.get(hdrs.CONTENT_ENCODING))
        return payload.load(await self._read_body(), self.resource, creating=creating)

    async def _read_body(self) -> bytes:
        limits = self.request.app[LIMITS]
        if (self.request.content_length or 0) > limits.body_bytes:
            raise BodyTooLarge(limits.body_bytes)
        try:
            async with asyncio.timeout(limits.arrival_seconds):
                return await self.request.read()
        except TimeoutError as error:
            raise RequestTimeout("body", limits.arrival_seconds) from error
        except web.RequestPayloadError as error:
            raise MalformedRequest("The body is not encoded as its headers say.") from error

    async def resolve(self, records: Sequence[Record], query: Query) -> Compound:
        """Return what the request wants to see along with these primary records."""
        return await include.resolve(
            self.resource, records, query.include, self.repository, self.graph
        )

    async def answer_change(self, record: Record, change: Change, query: Query) -> web.Response:
        """Answer with the written resource, and with the relationships that were written."""
        compound = await self.resolve([record], query)
        changed = {one.relationship.name: one.linked for one in change.linkages}
        key = (self.resource.type, record["_id"])
        links = {**compound.links, key: {**changed, **compound.links.get(key, {})}}
        return self.answer(record, replace(compound, links=links), query)

    def answer(self, record: Record, compound: Compound, query: Query) -> web.Response:
        """Answer with a single-resource document."""
        return web.Response(
            body=document.single(self.resource, record, compound, query, self.graph),
            content_type=media.MEDIA_TYPE,
        )


class CollectionView(ResourceView):
    """All resources of a type: section 4.2 and 4.5 of the service description."""

    async def get(self) -> web.StreamResponse:
        """Stream the whole collection, or with `include` build it and send it then."""
        query = self.read_query()
        url = absolute_url(self.request, self.request.app[SETTINGS].public_url)
        if query.include is None:
            return await self._send(self.repository.chunks(self.resource), query, url)
        async with aclosing(self.repository.chunks(self.resource)) as chunks:
            records = [record async for chunk in chunks for record in chunk]
        compound = await self.resolve(records, query)
        return await self._send(_chunk(records), query, url, compound)

    head = get

    async def post(self) -> web.Response:
        """Create a resource; the answer shows the attributes that a client may send."""
        asked = self.read_query()
        query = replace(asked, fields={self.resource.type: self.resource.writable, **asked.fields})
        change = await self.read_change(creating=True)
        record = await self.repository.insert(self.resource, change)
        response = await self.answer_change(record, change, query)
        response.set_status(201)
        response.headers[hdrs.LOCATION] = self.resource.path(record["_id"])
        return response

    async def _send(
        self,
        chunks: AsyncGenerator[Sequence[Record]],
        query: Query,
        url: str,
        compound: Compound = document.PLAIN,
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: media.MEDIA_TYPE})
        pieces = document.collection(self.resource, chunks, compound, query, self.graph, url)
        async with aclosing(chunks), aclosing(pieces):
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


class DetailView(ResourceView):
    """One resource: section 4.3 and 4.4 of the service description."""

    async def get(self) -> web.Response:
        """Return the resource."""
        query = self.read_query()
        record = await self.repository.get(self.resource, self._identifier())
        if record is None:
            raise self._missing()
        return self.answer(record, await self.resolve([record], query), query)

    head = get

    async def patch(self) -> web.Response:
        """Change the attributes and relationships that the body names, all or none."""
        query = self.read_query()
        identifier = self._identifier()
        change = await self.read_change(creating=False)
        record = await self.repository.update(self.resource, identifier, change)
        if record is None:
            raise self._missing()
        return await self.answer_change(record, change, query)

    def _identifier(self) -> int:
        identifier = payload.parse_id(self.request.match_info["id"])
        if identifier is None:
            raise self._missing()
        return identifier

    def _missing(self) -> NotFound:
        return NotFound.resource(self.resource.type, self.request.match_info["id"])


def routes(graph: Iterable[Resource]) -> list[web.RouteDef]:
    """Return the routes of all types (section 4.1 of the service description)."""
    return [
        web.view(path, type(view.__name__, (view,), {"resource": resource}), name=name)
        for resource in graph
        for view, path, name in (
            (CollectionView, resource.collection_path, f"{resource.type}_list"),
            (DetailView, resource.detail_path, f"{resource.type}_detail"),
        )
    ]


async def _chunk(records: Sequence[Record]) -> AsyncGenerator[Sequence[Record]]:
    if records:
        yield records

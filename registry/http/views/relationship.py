"""The views of relationships: their linkage and the related resources."""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import ClassVar, Self

from aiohttp import web

from registry.compound import CompoundStream, resolve, single_chunk
from registry.http.request_headers import NO_PREFERENCES
from registry.http.routes import Route
from registry.http.sending import Streamed
from registry.http.views.resource import read_listing
from registry.http.views.responding_view import JSONAPI, RespondingView, document_pieces
from registry.jsonapi.changes import Verb
from registry.jsonapi.documents import (
    Envelope,
    array,
    encode_document,
    encode_linkage,
    identifiers,
    path_of,
    relationship_links,
    resource_objects,
)
from registry.jsonapi.error_types import NotFound
from registry.jsonapi.pagination import Window, page_links, page_meta
from registry.jsonapi.query import Query, QueryScope
from registry.jsonapi.request_documents import load_linkage
from registry.model.record import Record
from registry.model.resource_type import Relationship, ResourceType
from registry.storage import Listing, Snapshot


class _RelationshipView(RespondingView):
    """A view of one relationship of a type. target: the type of the related resources."""

    relationship: ClassVar[Relationship]
    target: ClassVar[ResourceType]

    @classmethod
    def of(cls, route: Route) -> type[Self]:
        """Return the view of a route, whose path is that of a relationship."""
        bound = super().of(route)
        assert route.relationship is not None  # noqa: S101 - for mypy
        bound.relationship = route.relationship
        bound.target = bound.graph[route.relationship.target]
        return bound

    @property
    def related_scope(self) -> QueryScope:
        """The scope of the query parameters when the related resources are the primary data."""
        return replace(self.scope, resource=self.target, many=self.relationship.to_many)

    def members(self, owner: Record, query: Query, snapshot: Snapshot) -> Listing:
        """Return the related resources of a to-many relationship."""
        within = {self.relationship.foreign_key: owner["_id"]}
        return Listing(snapshot, self.target, query, within)

    async def related(self, owner: Record, snapshot: Snapshot) -> list[Record]:
        """Return the related resource of a to-one relationship, if there is one."""
        key = owner.get(self.relationship.foreign_key)
        if key is not None:
            with suppress(NotFound):  # a dangling key counts as null
                return [await snapshot.get(self.target, key)]
        return []


class RelatedView(_RelationshipView):
    """The related resources (JSON:API 1.0, Related Resource Links)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the related resource, or the collection of them."""
        query, table = read_listing(self, self.related_scope)
        snapshot = self.repository.snapshot()
        owner = await snapshot.get(self.resource, self.resource_id)
        if self.relationship.to_many:
            listing = self.members(owner, query, snapshot)
            return await self.respond_with_listing(self.target, listing, query, snapshot, table)
        records = await self.related(owner, snapshot)
        compound = await resolve(self.target, records, query, snapshot, self.graph)
        links = {"self": path_of(self.resource, owner["_id"], self.relationship.name)}
        if compound is None:
            stream = CompoundStream(self.target, query, snapshot, self.graph)
            envelope = Envelope(links, many=False)
            primary = stream.primary(single_chunk(records))
            pieces = document_pieces(stream, primary, query, envelope)
            return Streamed(self.in_slot(pieces), snapshot, 200, JSONAPI)

        def encode() -> bytes:
            objects = resource_objects(self.target, records, compound.relationships, query)
            data = objects[0] if objects else "null"
            return encode_document(data, compound, query, self.graph, links)

        return await self.respond(encode, compound.size, snapshot)


class LinkageView(_RelationshipView):
    """The linkage of a relationship (JSON:API 1.0, Fetching and Updating Relationships)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the identifiers of the related resources."""
        resource, relationship, target = self.resource, self.relationship, self.target
        self.negotiate()
        query = self.read_query(replace(self.related_scope, linkage=(resource, relationship)))
        page = query.page
        snapshot = self.repository.snapshot()
        owner = await snapshot.get(self.resource, self.resource_id)
        if relationship.to_many and page is None:
            return Streamed(self._all_pieces_of(owner, query, snapshot), snapshot, 200, JSONAPI)
        if page is None:
            window = Window(await self.related(owner, snapshot), more=False)
            own_links = relationship_links(resource, owner["_id"], relationship.name)
            links: dict[str, str | None] = {**own_links}
        else:
            window = await self._identified(owner, query, snapshot).window(page)
            links = {**self._absolute_links, **page_links(page, window, self.url)}
        start = (relationship.name,)
        compound = await resolve(target, window.records, query, snapshot, self.graph, start)
        if compound is None:
            meta = page_meta(page, window) if relationship.to_many else None
            envelope = Envelope(links, meta, relationship.to_many)
            pieces = self._pieces(single_chunk(window.records), query, snapshot, envelope)
            return Streamed(self.in_slot(pieces), snapshot, 200, JSONAPI)
        if query.include:  # its paths begin with the relationship
            rest = {**(compound.included or {})}
            first = {target.type: [*window.records, *rest.pop(target.type, ())]}
            compound = replace(compound, included={**first, **rest})

        def encode() -> bytes:
            ids = [record["_id"] for record in window.records]
            if resource.read_only:  # a period keeps the ids of what is deleted
                key = owner.get(relationship.foreign_key)
                ids = [] if key is None else [key]
            members = identifiers(target.type, ids)
            if relationship.to_many:
                data, meta = array(members), page_meta(page, window)
            else:
                data, meta = members[0] if members else "null", None
            return encode_document(data, compound, query, self.graph, links, meta)

        size = len(window.records) + compound.size
        return await self.respond(encode, size, snapshot, owner)

    async def _all_pieces_of(
        self, owner: Record, query: Query, snapshot: Snapshot
    ) -> AsyncGenerator[bytes]:
        """Yield all identifiers while they are read, as with a collection."""
        envelope = Envelope(self._absolute_links)
        async with (
            self._identified(owner, query, snapshot).chunks(self.client) as chunks,
            aclosing(self._pieces(chunks, query, snapshot, envelope)) as pieces,
        ):
            async for piece in pieces:
                yield piece

    async def _pieces(
        self,
        chunks: AsyncIterable[Sequence[Record]],
        query: Query,
        snapshot: Snapshot,
        envelope: Envelope,
    ) -> AsyncGenerator[bytes]:
        """Yield a document of identifiers in pieces. chunks: the resources that they identify."""
        start = (self.relationship.name,)
        stream = CompoundStream(self.target, query, snapshot, self.graph, start)
        async with aclosing(stream.identified(chunks)) as ids, aclosing(stream.included()) as rest:
            included = None if query.include is None else rest
            encoded = encode_linkage(ids, self.target.type, included, query, envelope)
            async with aclosing(encoded) as pieces:
                async for piece in pieces:
                    yield piece

    def _identified(self, owner: Record, query: Query, snapshot: Snapshot) -> Listing:
        """Return the members, with their attributes only if these are included."""
        if not query.include:
            query = replace(query, fields={**query.fields, self.target.type: frozenset()})
        return self.members(owner, query, snapshot)

    @property
    def _absolute_links(self) -> dict[str, str | None]:
        """The links of a list of identifiers: absolute, as those of a collection are."""
        url = self.url
        related = f"{url.partition('?')[0].rsplit('/', 2)[0]}/{self.relationship.name}"
        return {"self": url, "related": related}

    async def patch(self) -> web.Response:
        """Replace the linkage; resources that were linked elsewhere move."""
        return await self._change(Verb.UPDATE)

    async def _change(self, verb: Verb) -> web.Response:
        load = partial(load_linkage, relationship=self.relationship, verb=verb)
        _, change, key = await self.parse(await self.receive(), load)
        result = await self.write(Verb.UPDATE, change, key)
        headers = NO_PREFERENCES.acknowledge(is_replayed=result.is_replayed)
        return web.Response(status=204, headers=headers)

    async def post(self) -> web.Response:
        """Add members; present ones stay."""
        return await self._change(Verb.ADD)

    async def delete(self) -> web.Response:
        """Remove members; absent ones are ignored."""
        return await self._change(Verb.REMOVE)

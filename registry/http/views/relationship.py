"""The views of relationships: their linkage and the related resources."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import ClassVar

from aiohttp import web

from registry.compound import CompoundStream, resolve, single_chunk
from registry.http.request_headers import NO_PREFERENCES
from registry.http.views.responding_view import Chunks, RespondingView
from registry.jsonapi.changes import Verb
from registry.jsonapi.documents import Envelope, encode_document, encode_linkage
from registry.jsonapi.error_types import NotFound
from registry.jsonapi.pagination import page_links, page_meta
from registry.jsonapi.query import Query, QueryScope
from registry.jsonapi.request_documents import load_linkage
from registry.jsonapi.resource_objects import (
    array,
    identifiers,
    path_of,
    relationship_links,
)
from registry.model.record import ID, Record
from registry.model.resource_type import Relationship, ResourceType
from registry.storage import Listing


class _RelationshipView(RespondingView):
    """A view of one relationship of a type. target: the type of the related resources."""

    relationship: ClassVar[Relationship]
    target: ClassVar[ResourceType]

    @property
    def related_scope(self) -> QueryScope:
        """The scope of the query parameters when the related resources are the primary data."""
        return replace(self.scope, resource=self.target, many=self.relationship.to_many)

    async def owner(self) -> Record:
        """Return the resource of the path, which has the relationship."""
        return await self.snapshot.get(self.resource, self.resource_id)

    def members(self, owner: Record, query: Query) -> Listing:
        """Return the related resources of a to-many relationship."""
        within = {self.relationship.foreign_key: owner[ID]}
        return Listing(self.snapshot, self.target, query, within)

    async def related(self, owner: Record) -> list[Record]:
        """Return the related resource of a to-one relationship, if there is one."""
        key = owner.get(self.relationship.foreign_key)
        if key is not None:
            with suppress(NotFound):  # a dangling key counts as null
                return [await self.snapshot.get(self.target, key)]
        return []


class RelatedView(_RelationshipView):
    """The related resources (JSON:API 1.0, Related Resource Links)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the related resource, or the collection of them."""
        table = self.begin_listing(self.related_scope)
        owner = await self.owner()
        if self.relationship.to_many:
            members = self.members(owner, self.query)
            return await self.respond_with_listing(self.target, members, table)
        links = {"self": path_of(self.resource, owner[ID], self.relationship.name)}
        envelope = Envelope(links, many=False)
        return await self.respond_with_records(self.target, await self.related(owner), envelope)


class LinkageView(_RelationshipView):
    """The linkage of a relationship (JSON:API 1.0, Fetching and Updating Relationships)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the identifiers of the related resources."""
        resource, relationship, target = self.resource, self.relationship, self.target
        self.begin_reading(replace(self.related_scope, linkage=(resource, relationship)))
        owner, page = await self.owner(), self.query.page
        records: Sequence[Record]
        if not relationship.to_many:
            records = await self.related(owner)
            own_links = relationship_links(resource, owner[ID], relationship.name)
            envelope = Envelope(own_links, many=False)
        elif page is None:
            encode = partial(self._identifiers, Envelope(self._absolute_links))
            return self.stream(self.all_pieces(self._identified(owner), encode))
        else:
            window = await self._identified(owner).window(page)
            records = window.records
            links = {**self._absolute_links, **page_links(page, window, self.url)}
            envelope = Envelope(links, page_meta(page, window))
        compound = await resolve(
            target, records, self.query, self.snapshot, self.graph, (relationship.name,)
        )
        if compound is None:
            return self.stream(self.in_slot(self._identifiers(envelope, single_chunk(records))))
        if self.query.include:  # its paths begin with the relationship
            rest = {**(compound.included or {})}
            first = {target.type: [*records, *rest.pop(target.type, ())]}
            compound = replace(compound, included={**first, **rest})

        def encode_all() -> bytes:
            ids = [record[ID] for record in records]
            if resource.read_only:  # a period keeps the ids of what is deleted
                key = owner.get(relationship.foreign_key)
                ids = [] if key is None else [key]
            members, (links, meta, many) = identifiers(target.type, ids), envelope
            data = array(members) if many else members[0] if members else "null"
            return encode_document(data, compound, self.query, self.graph, links, meta)

        return await self.respond(encode_all, len(records) + compound.size, owner)

    async def _identifiers(self, envelope: Envelope, chunks: Chunks) -> AsyncGenerator[bytes]:
        """Yield a document of identifiers in pieces. chunks: the resources that they identify."""
        start = (self.relationship.name,)
        stream = CompoundStream(self.target, self.query, self.snapshot, self.graph, start)
        async with aclosing(stream.identified(chunks)) as ids, aclosing(stream.included()) as rest:
            included = None if self.query.include is None else rest
            encoded = encode_linkage(ids, self.target.type, included, self.query, envelope)
            async with aclosing(encoded) as pieces:
                async for piece in pieces:
                    yield piece

    def _identified(self, owner: Record) -> Listing:
        """Return the members, with their attributes only if these are included."""
        query = self.query
        if not query.include:
            query = replace(query, fields={**query.fields, self.target.type: frozenset()})
        return self.members(owner, query)

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
        _, change, key = await self.receive(load)
        result = await self.write(Verb.UPDATE, change, key)
        headers = NO_PREFERENCES.acknowledge(is_replayed=result.is_replayed)
        return web.Response(status=204, headers=headers)

    async def post(self) -> web.Response:
        """Add members; present ones stay."""
        return await self._change(Verb.ADD)

    async def delete(self) -> web.Response:
        """Remove members; absent ones are ignored."""
        return await self._change(Verb.REMOVE)

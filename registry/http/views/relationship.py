"""The views of relationships: the linkage, and the resources that it leads to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from aiohttp import web

from registry.compound import include_resolver as include
from registry.http.etags import if_match_versions
from registry.http.responses import DocumentResponse
from registry.http.views.collection import ListView, counts
from registry.jsonapi import documents as document
from registry.jsonapi.links import related_path, relationship_links
from registry.jsonapi.pagination import Window, page_links
from registry.jsonapi.query import Query, Scope
from registry.jsonapi.request_documents import Mode, load_linkage
from registry.jsonapi.resource_objects import identifier, linkage, resource_objects
from registry.model.record import Record
from registry.model.resource import Relationship, Resource
from registry.storage.errors import RecordNotFound
from registry.storage.reads.listings import Listing
from registry.storage.records import key_of


class _RelationshipView(ListView):
    """A view of one relationship of a type."""

    relationship: ClassVar[Relationship]

    @property
    def target(self) -> Resource:
        """The type that the relationship leads to."""
        return self.graph[self.relationship.target]

    @property
    def related_scope(self) -> Scope:
        """What the parameters are about when the answer holds related resources."""
        return replace(self.scope, resource=self.target, many=self.relationship.to_many)

    async def listing(self, owner: Record, query: Query) -> Listing:
        """Return the resources that a to-many relationship leads to."""
        within = {self.relationship.foreign_key: owner["_id"]}
        return await self.repository.listing(self.target, query, within)

    async def related(self, owner: Record) -> Record | None:
        """Return the resource that a to-one relationship leads to."""
        key = key_of(owner, self.relationship.foreign_key)
        if key is not None:
            with suppress(RecordNotFound):  # a key that leads to no resource counts as no link
                return await self.repository.get(self.target, key)
        return None


class RelatedView(_RelationshipView):
    """What a relationship leads to (JSON:API 1.0, Related Resource LinkageById)."""

    async def get(self) -> web.StreamResponse:
        """Return the related resource, or the collection of them that the parameters ask for."""
        query = self.read_query(self.related_scope)
        owner = await self.find()
        if self.relationship.to_many:
            listing = await self.listing(owner, query)
            return await self.answer_listing(self.target, listing, query)
        record = await self.related(owner)
        records = [record] if record else []
        compound = await self.resolve(self.target, records, query)
        path = related_path(self.resource, owner["_id"], self.relationship.name)
        objects = resource_objects(self.target, records, compound.links, query)
        data = next(iter(objects), None)
        return self.answer(document.whole(data, compound, query, self.graph, {"self": path}))

    head = get


class LinkageView(_RelationshipView):
    """The linkage of a relationship (JSON:API 1.0, Fetching and Updating Relationships)."""

    async def get(self) -> DocumentResponse:
        """Return the identifiers of the related resources."""
        linkage = (self.resource, self.relationship)
        query = self.read_query(replace(self.related_scope, linkage=linkage))
        owner = await self.find()
        if self.relationship.to_many:
            return await self._answer_many(owner, query)
        record = await self.related(owner)
        records = [record] if record else []
        data = identifier(self.target.type, record["_id"]) if record else None
        links = relationship_links(self.resource, owner["_id"], self.relationship.name)
        return await self._answer(owner, data, records, query, links)

    async def _answer_many(self, owner: Record, query: Query) -> DocumentResponse:
        """DocumentResponse with the identifiers of a page, or of all, which are few bytes each."""
        listing = await self.listing(owner, query)
        links: dict[str, str | None] = {"self": self.url, "related": self._related_url}
        if query.page is None:
            window = Window(await listing.all(), more=False)
        else:
            window = await listing.window(query.page)
            links |= page_links(query.page, window, self.url)
        data = linkage(self.target.type, (one["_id"] for one in window.records))
        return await self._answer(owner, data, window.records, query, links, counts(window))

    async def _answer(
        self,
        owner: Record,
        data: Any,
        records: Sequence[Record],
        query: Query,
        links: Mapping[str, str | None],
        meta: Mapping[str, int] | None = None,
    ) -> DocumentResponse:
        compound = await include.resolve_linkage(
            self.relationship, records, query, self.repository, self.graph
        )
        body = document.whole(data, compound, query, self.graph, links, meta)
        return self.answer(body, owner)

    @property
    def _related_url(self) -> str:
        """The URL of the related resources, absolute as `self` of a collection is."""
        above = self.url.partition("?")[0].rsplit("/", 2)[0]
        return f"{above}/{self.relationship.name}"

    head = get

    async def patch(self) -> web.Response:
        """Replace the linkage: what was linked to another resource moves."""
        return await self._change(Mode.REPLACE)

    async def _change(self, mode: Mode) -> web.Response:
        self.negotiate()
        self.refuse_parameters()
        identifier = self.identifier
        change = load_linkage(await self.read_body(), self.relationship, mode)
        versions = if_match_versions(self.request)
        await self.repository.update(self.resource, identifier, change, versions)
        return web.Response(status=204)


class MembersView(LinkageView):
    """The linkage of a to-many relationship, which can gain and lose members."""

    async def post(self) -> web.Response:
        """Add members; those that are there already stay."""
        return await self._change(Mode.ADD)

    async def delete(self) -> web.Response:
        """Remove members; those that are not there are no error."""
        return await self._change(Mode.REMOVE)

"""The views of a type: its resources, and their relationships."""

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import ClassVar

from aiohttp import hdrs, web

from registry.http.request_headers import NO_PREFERENCES, is_current, read_preferences
from registry.http.views.resource_view import JSONAPI, ResourceView
from registry.http.views.row_import import import_rows
from registry.jsonapi.changes import NEW, Verb, Write
from registry.jsonapi.content_negotiation import csv_charset
from registry.jsonapi.documents import Envelope, Part
from registry.jsonapi.error_types import InvalidParameter, NotFound, PreconditionFailed
from registry.jsonapi.query import NO_PARAMETERS, Query, QueryScope
from registry.jsonapi.request_documents import load, load_linkage
from registry.jsonapi.resource_objects import identifiers, path_of, relationship_links
from registry.jsonapi.visible_revisions import is_visible
from registry.model.record import ID, Record
from registry.model.resource_type import Relationship, ResourceType
from registry.storage import Listing

_NOT_STORED = "`include` is not possible with `Prefer: tx=rollback`, as it reads what is stored."


class DetailView(ResourceView):
    """One resource (JSON:API 1.0, Fetching, Updating and Deleting Resources)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the resource."""
        self.begin_reading(self.scope)
        id_ = self.resource_id
        record = await self.snapshot.get(self.resource, id_)
        if not is_visible(self.resource, record, self.query):
            raise NotFound.resource(self.resource.type, str(id_))
        return await self.respond_with_resource(record)

    async def patch(self) -> web.StreamResponse:
        """Change the attributes and relationships in the body, all or none."""
        load_change = partial(load, resource=self.resource, verb=Verb.UPDATE)
        change = await self.receive(load_change, self.scope)
        self.authorize_write(change)
        return await self.respond_with_result(await self.write(Verb.UPDATE, change))

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
        self.begin_listing(replace(self.scope, many=True))
        listing = Listing(self.snapshot, self.resource, self.query)
        return await self.respond_with_listing(self.resource, listing, {"self": self.url})

    async def post(self) -> web.StreamResponse:
        """Create a resource, or update one as the request prefers; or import a file of rows.

        The response has the writable attributes unless `fields` is sent. Raises InvalidParameter
        for `include` in a dry run, as related resources are read after it.
        """
        charset = csv_charset(self.request.headers.get(hdrs.CONTENT_TYPE))
        if charset is not None:
            return await import_rows(self, charset)
        preferences, resource = read_preferences(self.request), self.resource
        merges, rolls_back = preferences.merges, preferences.rolls_back
        load_change = partial(load, resource=resource, verb=Verb.ADD, merges=merges)
        change = await self.receive(load_change, self.scope, preferences)
        self.authorize_write(change)
        query = self.query
        if is_current(self.request, None):
            raise PreconditionFailed
        if rolls_back and query.include is not None:
            raise InvalidParameter(_NOT_STORED, parameter="include")
        if query is NO_PARAMETERS:
            self.query = _query_of_creation(resource)
        elif resource.type not in query.fields:
            fields = {**query.fields, resource.type: resource.shown_writable}
            self.query = replace(query, fields=fields)
        write = Write(Verb.ADD, resource, NEW, change, merges=merges)
        (result,) = await self.apply([write], rolls_back=rolls_back)
        self.status = 201 if result.write.verb is Verb.ADD else 200
        self.headers = {**JSONAPI, **preferences.acknowledge(is_replayed=result.is_replayed)}
        return await self.respond_with_result(result)


@lru_cache(maxsize=64)
def _query_of_creation(resource: ResourceType) -> Query:
    """Return what a POST without parameters asks for."""
    return Query(fields={resource.type: resource.shown_writable})


class _RelationshipView(ResourceView):
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

    def members(self, owner: Record) -> Listing:
        """Return the related resources of a to-many relationship."""
        within = {self.relationship.foreign_key: owner[ID]}
        return Listing(self.snapshot, self.target, self.query, within)

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
        self.begin_listing(self.related_scope)
        owner = await self.owner()
        if self.relationship.to_many:
            links = {"self": self.url}
            return await self.respond_with_listing(self.target, self.members(owner), links)
        links = {"self": path_of(self.resource, owner[ID], self.relationship.name)}
        envelope = Envelope(links, many=False)
        return await self.respond_with_records(self.target, await self.related(owner), envelope)


class LinkageView(_RelationshipView):
    """The linkage of a relationship (JSON:API 1.0, Fetching and Updating Relationships)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the identifiers of the related resources."""
        resource, relationship, target = self.resource, self.relationship, self.target
        self.start = (relationship.name,)
        self.begin_reading(replace(self.related_scope, linkage=(resource, relationship)))
        self.represented = owner = await self.owner()
        if not relationship.to_many:
            links = relationship_links(resource, owner[ID], relationship.name)
            records = await self.related(owner)
            return await self.respond_with_records(target, records, Envelope(links, many=False))
        if not self.query.include:  # no attributes are needed
            fields = {**self.query.fields, target.type: frozenset[str]()}
            self.query = replace(self.query, fields=fields)
        url = self.url  # the links are absolute, as those of a collection are
        related = f"{url.partition('?')[0].rsplit('/', 2)[0]}/{relationship.name}"
        links = {"self": url, "related": related}
        return await self.respond_with_listing(target, self.members(owner), links)

    def primary_data(self, part: Part) -> list[str]:
        """Return the identifiers of the related resources."""
        ids, owner = [record[ID] for record in part.records], self.represented
        if owner and self.resource.read_only:  # a period keeps the ids of what is deleted
            key = owner.get(self.relationship.foreign_key)
            ids = [] if key is None else [key]
        return identifiers(part.resource.type, ids)

    async def patch(self) -> web.Response:
        """Replace the linkage; resources that were linked elsewhere move."""
        return await self._change(Verb.UPDATE)

    async def post(self) -> web.Response:
        """Add members; present ones stay."""
        return await self._change(Verb.ADD)

    async def delete(self) -> web.Response:
        """Remove members; absent ones are ignored."""
        return await self._change(Verb.REMOVE)

    async def _change(self, verb: Verb) -> web.Response:
        load_change = partial(load_linkage, relationship=self.relationship, verb=verb)
        result = await self.write(Verb.UPDATE, await self.receive(load_change))
        headers = NO_PREFERENCES.acknowledge(is_replayed=result.is_replayed)
        return web.Response(status=204, headers=headers)

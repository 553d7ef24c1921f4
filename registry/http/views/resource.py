"""The views of a type: one resource, and all of them."""

from dataclasses import replace
from functools import partial

from aiohttp import web

from registry.http.request_headers import is_current, read_preferences
from registry.http.responses import DocumentResponse
from registry.http.views.document_view import ResourceView
from registry.http.views.listing import read_listing, respond_with_listing
from registry.jsonapi.authorization import required_by_change
from registry.jsonapi.changes import NEW, Verb, Write
from registry.jsonapi.error_types import InvalidParameter, PreconditionFailed
from registry.jsonapi.request_documents import load
from registry.storage import Listing

_NO_INCLUDE = "`include` is not possible with `Prefer: tx=rollback`, as it reads what is stored."


class DetailView(ResourceView):
    """One resource (JSON:API 1.0, Fetching, Updating and Deleting Resources)."""

    async def get(self) -> DocumentResponse:
        """Respond with the resource."""
        self.negotiate()
        query = self.read_query(self.scope)
        snapshot = self.repository.snapshot()
        record = await snapshot.get(self.resource, self.resource_id)
        return await self.respond_with_resource(record, query, snapshot)

    async def patch(self) -> DocumentResponse:
        """Change the attributes and relationships in the body, all or none."""
        load_change = partial(load, resource=self.resource, verb=Verb.UPDATE)
        query, change, _ = await self.read_request(load_change, required_by_change, self.scope)
        result = await self.write(Verb.UPDATE, change, shows_related=bool(query.include))
        snapshot = self.repository.snapshot(result.time)
        return await self.respond_with_resource(result.record, query, snapshot, change)

    async def delete(self) -> web.Response:
        """Delete the resource; resources linked to it stay, unlinked."""
        self.negotiate()
        self.read_query(None)
        await self.write(Verb.REMOVE)
        return web.Response(status=204)


class CollectionView(ResourceView):
    """All resources of a type (JSON:API 1.0, Fetching and Creating Resources)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the collection, filtered, sorted and paged by the query."""
        query, table = read_listing(self, replace(self.scope, many=True))
        snapshot = await self.repository.snapshot_for(self.resource, query)
        listing = Listing(snapshot, self.resource, query)
        return await respond_with_listing(self, self.resource, listing, query, snapshot, table)

    async def post(self) -> DocumentResponse:
        """Create a resource, or update one as the request prefers.

        The response has the writable attributes unless `fields` is sent. Raises InvalidParameter
        for `include` in a dry run, as related resources are read after it.
        """
        preferences = read_preferences(self.request)
        merges = preferences.merges
        load_change = partial(load, resource=self.resource, verb=Verb.ADD, merges=merges)
        query, change, key = await self.read_request(
            load_change, required_by_change, self.scope, preferences=preferences
        )
        if is_current(self.request, None):
            raise PreconditionFailed
        if preferences.rolls_back and query.include is not None:
            raise InvalidParameter(_NO_INCLUDE, parameter="include")
        query = replace(query, fields={self.resource.type: self.resource.writable, **query.fields})
        shows_related = bool(query.include)
        write = Write(
            Verb.ADD, self.resource, NEW, change, shows_related=shows_related, merges=merges
        )
        (result,) = await self.repository.write(
            [write.written_by(self.author)], key, rolls_back=preferences.rolls_back
        )
        snapshot = self.repository.snapshot(result.time)
        status = 201 if result.write.verb is Verb.ADD else 200
        headers = preferences.acknowledge(is_replayed=result.is_replayed)
        return await self.respond_with_resource(
            result.record, query, snapshot, change, status, headers
        )

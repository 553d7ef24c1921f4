"""The views of a type: one resource, and all of them."""

from dataclasses import replace
from functools import partial

from aiohttp import hdrs, web

from registry.http.request_headers import is_current, read_preferences
from registry.http.views.responding_view import JSONAPI, RespondingView
from registry.http.views.row_import import import_rows
from registry.jsonapi.changes import NEW, Verb, Write
from registry.jsonapi.content_negotiation import csv_charset
from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import InvalidParameter, NotFound, PreconditionFailed
from registry.jsonapi.query import WITH_COUNT
from registry.jsonapi.request_documents import load
from registry.jsonapi.visible_revisions import is_visible
from registry.storage import Listing

_NOT_STORED = "{} is not possible with `Prefer: tx=rollback`, as it reads what is stored."


class DetailView(RespondingView):
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
        self.query, change, _ = await self.receive(load_change, self.scope)
        self.authorize_write(self.query, change)
        result = await self.write(Verb.UPDATE, change)
        return await self.respond_with_resource(await self.written_record(result))

    async def delete(self) -> web.Response:
        """Delete the resource; resources linked to it stay, unlinked."""
        self.negotiate()
        self.parse_query(None)
        await self.write(Verb.REMOVE)
        return web.Response(status=204)


class CollectionView(RespondingView):
    """All resources of a type (JSON:API 1.0, Fetching and Creating Resources)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the collection, filtered, sorted and paged by the query."""
        table = self.begin_listing(replace(self.scope, many=True))
        listing = Listing(self.snapshot, self.resource, self.query)
        return await self.respond_with_listing(self.resource, listing, table)

    async def post(self) -> web.StreamResponse:
        """Create a resource, or update one as the request prefers; or import a file of rows.

        The response has the writable attributes unless `fields` is sent. Raises InvalidParameter
        for `include` and counts in a dry run, as related resources are read after it.
        """
        charset = csv_charset(self.request.headers.get(hdrs.CONTENT_TYPE))
        if charset is not None:
            return await import_rows(self, charset)
        preferences, resource = read_preferences(self.request), self.resource
        merges, rolls_back = preferences.merges, preferences.rolls_back
        load_change = partial(load, resource=resource, verb=Verb.ADD, merges=merges)
        query, change, key = await self.receive(load_change, self.scope, preferences)
        self.authorize_write(query, change)
        if is_current(self.request, None):
            raise PreconditionFailed
        if rolls_back and (query.include is not None or query.counts):
            name = WITH_COUNT if query.counts else "include"
            raise InvalidParameter(_NOT_STORED.format(quoted(name)), parameter=name)
        fields = {resource.type: resource.writable.keys(), **query.fields}
        self.query = replace(query, fields=fields)
        write = Write(Verb.ADD, resource, NEW, change, merges=merges)
        (result,) = await self.repository.write(
            [write], key, author=self.author, rolls_back=rolls_back
        )
        record = await self.written_record(result)
        status = 201 if result.write.verb is Verb.ADD else 200
        headers = {**JSONAPI, **preferences.acknowledge(is_replayed=result.is_replayed)}
        return await self.respond_with_resource(record, status, headers)

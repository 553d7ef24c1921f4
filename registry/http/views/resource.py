"""The views of a type, and responses with lists: a page, or a stream of all, as JSON:API or CSV."""

from dataclasses import replace
from functools import partial

from aiohttp import hdrs, web

from registry.csv_format import CsvTable
from registry.http.request_headers import is_current, read_preferences
from registry.http.views.document_view import ResourceView
from registry.http.views.responding_view import JSONAPI, RespondingView
from registry.http.views.row_import import import_rows
from registry.jsonapi.authorization import required_by_query
from registry.jsonapi.changes import NEW, Verb, Write
from registry.jsonapi.content_negotiation import csv_charset, prefers
from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import InvalidParameter, NotFound, PreconditionFailed
from registry.jsonapi.query import WITH_COUNT, Query, QueryScope
from registry.jsonapi.request_documents import load
from registry.jsonapi.visible_revisions import is_visible
from registry.protocol import CSV_TYPE
from registry.storage import Listing

_NOT_STORED = "{} is not possible with `Prefer: tx=rollback`, as it reads what is stored."


class DetailView(RespondingView):
    """One resource (JSON:API 1.0, Fetching, Updating and Deleting Resources)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the resource."""
        self.negotiate()
        query = self.read_query(self.scope)
        snapshot = self.repository.snapshot()
        record = await snapshot.get(self.resource, self.resource_id)
        if not is_visible(self.resource, record, query):
            raise NotFound.resource(self.resource.type, str(self.resource_id))
        return await self.respond_with_resource(record, query, snapshot)

    async def patch(self) -> web.StreamResponse:
        """Change the attributes and relationships in the body, all or none."""
        load_change = partial(load, resource=self.resource, verb=Verb.UPDATE)
        query, change, _ = await self.parse(await self.receive(), load_change, self.scope)
        self.authorize_write(query, change)
        result = await self.write(Verb.UPDATE, change)
        snapshot = self.repository.snapshot(result.time)
        record = await self.written_record(result, query, snapshot)
        return await self.respond_with_resource(record, query, snapshot, change)

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
        query, table = read_listing(self, replace(self.scope, many=True))
        snapshot = self.repository.snapshot()
        listing = Listing(snapshot, self.resource, query)
        return await self.respond_with_listing(self.resource, listing, query, snapshot, table)

    async def post(self) -> web.StreamResponse:
        """Create a resource, or update one as the request prefers; or import a file of rows.

        The response has the writable attributes unless `fields` is sent. Raises InvalidParameter
        for `include` and counts in a dry run, as related resources are read after it.
        """
        charset = csv_charset(self.request.headers.get(hdrs.CONTENT_TYPE))
        if charset is not None:
            return await import_rows(self, charset)
        preferences = read_preferences(self.request)
        merges = preferences.merges
        load_change = partial(load, resource=self.resource, verb=Verb.ADD, merges=merges)
        self.check_merge(preferences)
        body = await self.receive()
        query, change, key = await self.parse(body, load_change, self.scope, preferences)
        self.authorize_write(query, change)
        if is_current(self.request, None):
            raise PreconditionFailed
        if preferences.rolls_back and (query.include is not None or query.counts):
            name = WITH_COUNT if query.counts else "include"
            raise InvalidParameter(_NOT_STORED.format(quoted(name)), parameter=name)
        query = replace(
            query, fields={self.resource.type: self.resource.writable.keys(), **query.fields}
        )
        write = Write(Verb.ADD, self.resource, NEW, change, merges=merges)
        (result,) = await self.repository.write(
            [write], key, author=self.author, rolls_back=preferences.rolls_back
        )
        snapshot = self.repository.snapshot(result.time)
        record = await self.written_record(result, query, snapshot)
        status = 201 if result.write.verb is Verb.ADD else 200
        headers = {**JSONAPI, **preferences.acknowledge(is_replayed=result.is_replayed)}
        return await self.respond_with_resource(record, query, snapshot, change, status, headers)


def read_listing(view: ResourceView, scope: QueryScope) -> tuple[Query, CsvTable | None]:
    """Return the query of a request, and the table for a list if `Accept` prefers CSV."""
    view.negotiate()
    query = view.read_query(scope)
    if not scope.many or not prefers(CSV_TYPE, view.request.headers.getall(hdrs.ACCEPT, ())):
        return query, None
    table = CsvTable(query, scope.resource, scope.graph)
    # What `include` itself names was authorized before.
    view.authorize(required_by_query(table.query, scope, f"fields[{scope.resource.type}]"))
    return table.query, table

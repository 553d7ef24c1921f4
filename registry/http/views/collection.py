"""The view of all resources of a type."""

from dataclasses import replace
from functools import partial

from aiohttp import web

from registry.http.etags import check_collection
from registry.http.idempotency import marked
from registry.http.responses import DocumentResponse
from registry.http.views.listing import ListView
from registry.jsonapi.authorization import required_by_change
from registry.jsonapi.changes import NEW, Verb, Write
from registry.jsonapi.request_documents import load


class CollectionView(ListView):
    """All resources of a type (sections 4.2 and 4.5 of the service description)."""

    async def get(self) -> web.StreamResponse:
        """Respond with the collection, filtered, sorted and paged by the query."""
        query = self.read_query(replace(self.scope, many=True))
        snapshot = await self.repository.snapshot_for(self.resource, query)
        listing = snapshot.listing(self.resource, query)
        return await self.respond_with_listing(self.resource, listing, query, snapshot)

    head = get

    async def post(self) -> DocumentResponse:
        """Create a resource; the response has its writable attributes unless `fields` is sent."""
        self.negotiate()
        query, change, key = await self.read_keyed_request(
            partial(self.parse_query, self.scope),
            partial(load, resource=self.resource, creating=True),
            partial(required_by_change, graph=self.graph),
        )
        check_collection(self.request)
        query = replace(query, fields={self.resource.type: self.resource.writable, **query.fields})
        shows_related = bool(query.include)
        write = Write(Verb.CREATE, self.resource, NEW, change, shows_related=shows_related)
        (result,) = await self.repository.write([write.written_by(self.author)], key)
        record, snapshot = result.record, self.repository.snapshot(result.time)
        response = await self.respond_with_resource(record, query, snapshot, change, status=201)
        return marked(response, is_replayed=result.is_replayed)

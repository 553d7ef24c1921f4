"""The view of a single resource."""

from functools import partial

from aiohttp import web

from registry.http.responses import DocumentResponse
from registry.http.views.document_view import ResourceView
from registry.jsonapi.authorization import required_by_change
from registry.jsonapi.changes import Verb
from registry.jsonapi.request_documents import load


class DetailView(ResourceView):
    """One resource (JSON:API 1.0, Fetching, Updating and Deleting Resources)."""

    async def get(self) -> DocumentResponse:
        """Respond with the resource."""
        self.negotiate()
        query = self.read_query(self.scope)
        snapshot = self.repository.snapshot()
        record = await snapshot.get(self.resource, self.resource_id)
        return await self.respond_with_resource(record, query, snapshot)

    head = get

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

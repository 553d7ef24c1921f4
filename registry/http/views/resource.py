"""The view of a single resource."""

from aiohttp import web

from registry.http.etags import if_match_versions
from registry.http.responses import DocumentResponse
from registry.http.views.base import TypeView
from registry.jsonapi.request_documents import load


class DetailView(TypeView):
    """One resource (sections 4.3 and 4.4 of the service description)."""

    async def get(self) -> DocumentResponse:
        """Respond with the resource."""
        query = self.read_query(self.scope)
        snapshot = self.repository.snapshot()
        return await self.respond_with_resource(await self.find(snapshot), query, snapshot)

    head = get

    async def patch(self) -> DocumentResponse:
        """Change the attributes and relationships in the body, all or none."""
        query = self.read_query(self.scope)
        id_ = self.resource_id
        change = load(await self.read_body(), self.resource, creating=False)
        versions = if_match_versions(self.request)
        written = await self.repository.update(
            self.resource, id_, change, versions, read_back=bool(query.include)
        )
        snapshot = self.repository.snapshot(written.time)
        return await self.respond_with_resource(written.record, query, snapshot, change)

    async def delete(self) -> web.Response:
        """Delete the resource; resources linked to it stay, unlinked."""
        self.negotiate()
        self.reject_parameters()
        versions = if_match_versions(self.request)
        await self.repository.delete(self.resource, self.resource_id, versions)
        return web.Response(status=204)

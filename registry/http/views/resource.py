"""The view of a single resource, and what it shares with the other views of a type."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import ClassVar

from aiohttp import hdrs, web

from registry.compound import include_resolver as include
from registry.http.etags import if_match_versions
from registry.http.responses import DocumentResponse
from registry.http.views.base import DocumentView
from registry.jsonapi import documents as document
from registry.jsonapi.documents import Compound
from registry.jsonapi.errors import NotFound
from registry.jsonapi.links import resource_path
from registry.jsonapi.query import Query, Scope
from registry.jsonapi.request_documents import Change, load, parse_id
from registry.model.record import Record
from registry.model.resource import Resource


class TypeView(DocumentView):
    """A view below the path of a type.

    scope: of the query parameters, for a single resource of the type.
    """

    resource: ClassVar[Resource]
    scope: ClassVar[Scope]

    @property
    def identifier(self) -> int:
        """The id in the path. Raises NotFound if it is not a valid id."""
        identifier = parse_id(self.request.match_info["id"])
        if identifier is None:
            raise self.not_found()
        return identifier

    def not_found(self) -> NotFound:
        """Return the error for the resource that the path names."""
        return NotFound.resource(self.resource.type, self.request.match_info["id"])

    def require(self, record: Record | None) -> Record:
        """Return the record. Raises NotFound if there is none."""
        if record is None:
            raise self.not_found()
        return record

    async def find(self) -> Record:
        """Return the record of the resource that the path names. Raises NotFound."""
        return self.require(await self.repository.get(self.resource, self.identifier))

    def resolve(
        self, resource: Resource, records: Sequence[Record], query: Query
    ) -> Awaitable[Compound]:
        """Return the relationships and included resources of primary records."""
        return include.resolve(resource, records, query, self.repository, self.graph)

    async def respond_with_change(
        self, record: Record, change: Change, query: Query, status: int = 200
    ) -> DocumentResponse:
        """Respond with a written resource, and the relationships that were written."""
        compound = await self.resolve(self.resource, [record], query)
        if not change.linkages:
            return self.respond_with_resource(record, compound, query, status)
        changed = document.written_links(record, change)
        followed = compound.links.get(self.resource.type, {})
        shown = {**changed, **{n: {**changed.get(n, {}), **of} for n, of in followed.items()}}
        links = {**compound.links, self.resource.type: shown}
        return self.respond_with_resource(record, replace(compound, links=links), query, status)

    def respond_with_resource(
        self, record: Record, compound: Compound, query: Query, status: int = 200
    ) -> DocumentResponse:
        """Respond with the document of a single resource."""
        path = resource_path(self.resource, record["_id"])
        (data,) = document.resource_objects(self.resource, [record], compound.links, query)
        body = document.whole(data, compound, query, self.graph, {"self": path})
        location: dict[str, str] = {hdrs.LOCATION: path} if status == 201 else {}
        return self.respond(body, record, status=status, headers=location)


class DetailView(TypeView):
    """One resource (sections 4.3 and 4.4 of the service description)."""

    async def get(self) -> DocumentResponse:
        """Respond with the resource."""
        query = self.read_query(self.scope)
        record = await self.find()
        compound = await self.resolve(self.resource, [record], query)
        return self.respond_with_resource(record, compound, query)

    head = get

    async def patch(self) -> DocumentResponse:
        """Change the attributes and relationships in the body, all or none."""
        query = self.read_query(self.scope)
        identifier = self.identifier
        change = load(await self.read_body(), self.resource, creating=False)
        record = self.require(
            await self.repository.update(
                self.resource, identifier, change, if_match_versions(self.request)
            )
        )
        return await self.respond_with_change(record, change, query)

    async def delete(self) -> web.Response:
        """Delete the resource; resources linked to it stay, unlinked."""
        self.negotiate()
        self.reject_parameters()
        self.require(
            await self.repository.delete(
                self.resource, self.identifier, if_match_versions(self.request)
            )
        )
        return web.Response(status=204)

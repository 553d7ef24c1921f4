"""The view of one resource, and what the other views of a type share with it."""

from __future__ import annotations

from collections.abc import Sequence
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
from registry.jsonapi.request_documents import Change, load
from registry.jsonapi.resource_objects import resource_objects
from registry.model.attributes.identifier import parse_id
from registry.model.record import Record
from registry.model.resource import Resource


class TypeView(DocumentView):
    """A view below the path of a type.

    scope: what the parameters are about, one resource of the type.
    """

    resource: ClassVar[Resource]
    scope: ClassVar[Scope]

    @property
    def identifier(self) -> int:
        """The id in the path. Raises NotFound if no resource can have it."""
        identifier = parse_id(self.request.match_info["id"])
        if identifier is None:
            raise NotFound.resource(self.resource.type, self.request.match_info["id"])
        return identifier

    async def find(self) -> Record:
        """Return the resource that the path names. Raises RecordNotFound if there is none."""
        return await self.repository.get(self.resource, self.identifier)

    async def resolve(
        self, resource: Resource, records: Sequence[Record], query: Query
    ) -> Compound:
        """Return what the request wants to see along with these primary records."""
        return await include.resolve(resource, records, query, self.repository, self.graph)

    async def answer_change(
        self, record: Record, change: Change, query: Query, status: int = 200
    ) -> DocumentResponse:
        """Return the written resource, and with the relationships that were written."""
        compound = await self.resolve(self.resource, [record], query)
        if not change.linkages:
            return self.answer_one(record, compound, query, status)
        changed = document.written_links(record, change)
        followed = compound.links.get(self.resource.type, {})
        shown = {**changed, **{n: {**changed.get(n, {}), **of} for n, of in followed.items()}}
        links = {**compound.links, self.resource.type: shown}
        return self.answer_one(record, replace(compound, links=links), query, status)

    def answer_one(
        self, record: Record, compound: Compound, query: Query, status: int = 200
    ) -> DocumentResponse:
        """DocumentResponse with a single-resource document."""
        path = resource_path(self.resource, record["_id"])
        (data,) = resource_objects(self.resource, [record], compound.links, query)
        body = document.whole(data, compound, query, self.graph, {"self": path})
        location: dict[str, str] = {hdrs.LOCATION: path} if status == 201 else {}
        return self.answer(body, record, status=status, headers=location)


class DetailView(TypeView):
    """One resource: section 4.3 and 4.4 of the service description."""

    async def get(self) -> DocumentResponse:
        """Return the resource."""
        query = self.read_query(self.scope)
        record = await self.find()
        compound = await self.resolve(self.resource, [record], query)
        return self.answer_one(record, compound, query)

    head = get

    async def patch(self) -> DocumentResponse:
        """Change the attributes and relationships that the body names, all or none."""
        query = self.read_query(self.scope)
        identifier = self.identifier
        change = load(await self.read_body(), self.resource, creating=False)
        versions = if_match_versions(self.request)
        record = await self.repository.update(self.resource, identifier, change, versions)
        return await self.answer_change(record, change, query)

    async def delete(self) -> web.Response:
        """Delete the resource; what was linked to it stays, unlinked."""
        self.negotiate()
        self.refuse_parameters()
        versions = if_match_versions(self.request)
        await self.repository.delete(self.resource, self.identifier, versions)
        return web.Response(status=204)

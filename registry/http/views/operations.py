"""The view of Atomic Operations: several changes in one request, all of them or none."""

from __future__ import annotations

from aiohttp import hdrs, web

from registry.http.views.base import DocumentView
from registry.jsonapi import content_negotiation as media
from registry.jsonapi import documents as document
from registry.jsonapi.atomic_operations import EXTENSION, Operation, Verb, load_operations
from registry.jsonapi.query import Query
from registry.jsonapi.resource_objects import Json, resource_objects
from registry.model.record import Record


class OperationsView(DocumentView):
    """The path that takes operations (Atomic Operations, Processing)."""

    async def post(self) -> web.Response:
        """Do the operations in their order; the results stand in the same one."""
        self.negotiate(EXTENSION)
        self.refuse_parameters()
        body = await self.read_body(EXTENSION)
        operations = load_operations(body, self.graph, self.settings.most_operations)
        records = await self.repository.execute(operations)
        done = list(zip(operations, records, strict=True))
        ids = {one.target.id: record["_id"] for one, record in done if one.target.id is not None}
        results = [_result(one.with_assigned_ids(ids), record) for one, record in done]
        return web.Response(
            body=document.results(results),
            headers={hdrs.CONTENT_TYPE: media.media_type(EXTENSION)},
        )


def _result(operation: Operation, record: Record) -> Json | None:
    """Return the resource as a request of its own would have answered with it."""
    if not operation.shown:
        return None
    resource = operation.resource
    creating = operation.verb is Verb.CREATE
    query = Query({resource.type: resource.writable}) if creating else Query()
    links = {resource.type: document.written_links(record, operation.change)}
    (shown,) = resource_objects(resource, [record], links, query)
    return shown

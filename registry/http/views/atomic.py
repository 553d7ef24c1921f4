"""The view of the Atomic Operations extension: several changes in one request, all or none."""

from functools import partial

from aiohttp import hdrs, web

from registry.http.app_keys import GRAPH
from registry.http.views.document_view import DocumentView
from registry.http.write_headers import read_preferences
from registry.jsonapi.authorization import required_by_operations
from registry.jsonapi.changes import Verb
from registry.jsonapi.documents import written_linkage
from registry.jsonapi.error_types import PreconditionFailed
from registry.jsonapi.operation_documents import Effect, encode_results, load_operations
from registry.jsonapi.query import Query
from registry.jsonapi.resource_objects import resource_objects
from registry.offloading import offload
from registry.protocol import EXTENSION, media_type
from registry.storage import WriteResult


class AtomicView(DocumentView):
    """The endpoint for operations (Atomic Operations, Processing)."""

    async def post(self) -> web.Response:
        """Perform the operations in order; the results have the same order.

        Raises PreconditionFailed for any `If-Match`: the path has no representation that could
        match (RFC 9110, 13.1.1).
        """
        preferences = read_preferences(self.request)
        load = partial(load_operations, graph=self.app[GRAPH], merges=preferences.merges)
        _, operations, key = await self.read_request(
            load, required_by_operations, extension=EXTENSION, preferences=preferences
        )
        if hdrs.IF_MATCH in self.request.headers:
            raise PreconditionFailed
        author = self.author
        writes = [write.written_by(author) for write in operations]
        results = await self.repository.write(writes, key, rolls_back=preferences.rolls_back)

        def encode() -> bytes:
            effects = map(_effect, results) if preferences.merges else ()
            return encode_results([_resource_object(result) for result in results], effects)

        size = sum(write.size for write in writes)
        body = await offload(encode, size=size)
        headers = preferences.acknowledge(is_replayed=results[0].is_replayed)
        headers[hdrs.CONTENT_TYPE] = media_type(EXTENSION)
        return web.Response(body=body, headers=headers)


def _effect(result: WriteResult) -> Effect | None:
    """Return what an addition that merges has done; None for other operations."""
    if not result.write.merges:
        return None
    if result.write.verb is Verb.ADD:
        return Effect.CREATED
    return Effect.UPDATED if result.is_changed else Effect.UNCHANGED


def _resource_object(result: WriteResult) -> str | None:
    """Return the resource object of one result, None if the operation has none to return."""
    write, resource = result.write, result.write.resource
    if not write.is_shown:
        return None
    is_added = write.verb is Verb.ADD or write.merges
    query = Query({resource.type: resource.writable}) if is_added else Query()
    linkage = {resource.type: written_linkage(result.record, write.change)}
    (text,) = resource_objects(resource, [result.record], linkage, query)
    return text

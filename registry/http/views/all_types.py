"""The views of what concerns all types: atomic operations, and the change feed."""

from contextlib import aclosing
from functools import partial

from aiohttp import hdrs, web

from registry.access.authorization import readable_types, required_by_feed, required_by_operations
from registry.http.access_control import PRINCIPAL, bearer_token
from registry.http.addresses import query_of
from registry.http.app_keys import GRAPH
from registry.http.followers import FOLLOWERS, Follower
from registry.http.request_headers import read_preferences, request_id
from registry.http.responses import POSITION
from registry.http.sending import write_parts
from registry.http.views.document_view import DocumentView
from registry.jsonapi.change_events import Audience
from registry.jsonapi.changes import Verb
from registry.jsonapi.content_negotiation import prefers
from registry.jsonapi.documents import (
    Effect,
    encode_meta,
    encode_results,
    written_linkage,
)
from registry.jsonapi.error_types import InvalidPosition, PreconditionFailed
from registry.jsonapi.operation_documents import load_operations
from registry.jsonapi.query import AFTER, FeedQuery, Query
from registry.jsonapi.query_parameters import parse_feed_query
from registry.jsonapi.resource_objects import resource_objects
from registry.offloading import offload
from registry.protocol import EVENT_STREAM, EXTENSION, LAST_EVENT_ID, MEDIA_TYPE, media_type
from registry.storage import FeedPosition, WriteResult

_MAX_EVENTS_BYTES = 2**16
"""Bytes of events that are written before waiting for the client. aiohttp copies them for each
follower, so a whole batch would take a megabyte for each slow one."""


class AtomicView(DocumentView):
    """The endpoint for operations (Atomic Operations, Processing)."""

    async def post(self) -> web.Response:
        """Perform the operations in order.

        Raises PreconditionFailed for any `If-Match`: the path has no representation (RFC 9110,
        13.1.1).
        """
        preferences = read_preferences(self.request)
        load = partial(load_operations, graph=self.app[GRAPH], merges=preferences.merges)
        writes = await self.receive(load, preferences=preferences, extension=EXTENSION)
        self.authorize(required_by_operations(writes, self.app[GRAPH]))
        if hdrs.IF_MATCH in self.request.headers:
            raise PreconditionFailed
        results = await self.apply(writes, rolls_back=preferences.rolls_back)

        def encode() -> bytes:
            effects = map(_effect, results) if preferences.merges else ()
            return encode_results([_resource_object(result) for result in results], effects)

        size = sum(write.size for write in writes)
        results_document = await offload(encode, size=size)
        headers = preferences.acknowledge(is_replayed=results[0].is_replayed)
        headers[hdrs.CONTENT_TYPE] = media_type(EXTENSION)
        return web.Response(body=results_document, headers=headers)


class FeedView(DocumentView):
    """The changes of all types, in the order of their commits."""

    async def get(self) -> web.StreamResponse:
        """Respond with the changes after a position, without an end.

        `Last-Event-ID` precedes `page[after]`: browsers send it when they connect to the same URL
        again. Others than followers get the present position, and the oldest one that can be
        followed.
        """
        graph = self.app[GRAPH]
        self.negotiate()
        query = parse_feed_query(query_of(self.request).items(), graph)
        readable = readable_types(self.request.get(PRINCIPAL), graph)
        self.authorize(required_by_feed(query, readable, graph))
        types = readable if query.types is None else frozenset(query.types)
        after = self._after(query)
        if not prefers(EVENT_STREAM, self.request.headers.getall(hdrs.ACCEPT, ())):
            return await self._respond_with_positions()
        headers = {hdrs.CONTENT_TYPE: EVENT_STREAM, "X-Accel-Buffering": "no"}  # of nginx
        response = web.StreamResponse(headers=headers)
        response.force_close()
        if self.request.method == hdrs.METH_HEAD:
            return response
        token = bearer_token(self.request) if PRINCIPAL in self.request else None
        follower = Follower(Audience(types, readable), token)
        following = self.app[FOLLOWERS].events(
            after, follower, self.client, request_id(self.request)
        )
        try:
            async with aclosing(following):
                beginning = await anext(following)
                await response.prepare(self.request)
                await response.write(beginning)
                async for events in following:
                    await write_parts(response.write, events, _MAX_EVENTS_BYTES)
            await response.write_eof()  # waits for a client that has not read the rest
        finally:
            follower.close()
        return response

    def _after(self, query: FeedQuery) -> FeedPosition | None:
        """Return the position in the request. Raises InvalidPosition."""
        last = self.request.headers.get(LAST_EVENT_ID)
        position = last or query.after
        try:
            return None if position is None else self.repository.positions.decode(position)
        except InvalidPosition as error:
            error.parameter = None if last else AFTER
            raise

    async def _respond_with_positions(self) -> web.Response:
        encode = self.repository.positions.encode
        present = encode(await self.repository.now())
        oldest = await self.repository.oldest_retained_time()
        meta = {"position": present, "oldest": None if oldest is None else encode(oldest)}
        headers = {hdrs.CONTENT_TYPE: MEDIA_TYPE, POSITION: present}
        return web.Response(body=encode_meta({"self": self.url}, meta), headers=headers)


def _effect(result: WriteResult) -> Effect | None:
    """Return what an addition or an update has done; None for a removal."""
    if result.write.verb is Verb.REMOVE:
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
    query = Query({resource.type: resource.writable.keys()}) if is_added else Query()
    linkage = {resource.type: written_linkage(result.record, write.change)}
    (text,) = resource_objects(resource, [result.record], linkage, query)
    return text

"""The view of the change feed: server-sent events (WHATWG HTML, 9.2)."""

from aiohttp import hdrs, web

from registry.http.access_control import PRINCIPAL, bearer_token
from registry.http.app_keys import FOLLOWERS, GRAPH
from registry.http.connection import Connection
from registry.http.responses import POSITION, DocumentResponse
from registry.http.views.document_view import DocumentView
from registry.jsonapi.authorization import required_by_feed
from registry.jsonapi.change_events import (
    AFTER,
    Audience,
    FeedQuery,
    parse_feed_query,
    readable_types,
)
from registry.jsonapi.content_negotiation import prefers
from registry.jsonapi.documents import encode_meta
from registry.jsonapi.error_types import PositionRejected
from registry.protocol import EVENT_STREAM, LAST_EVENT_ID, MEDIA_TYPE
from registry.storage import ClusterTime, InvalidPosition


class FeedView(DocumentView):
    """The changes of all types, in the order of their commits."""

    async def get(self) -> web.StreamResponse:
        """Respond with the changes after a position, without an end.

        `Last-Event-ID` precedes `page[after]`, as browsers send it when they connect to the same
        URL again. Unless `Accept` prefers events, responds with the present position, and the
        oldest one from which the feed can be read.
        """
        graph = self.app[GRAPH]
        self.negotiate()
        query = parse_feed_query(self.request.query.items(), graph)
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
        await self._enter(self.repository.bulkheads.followers, awaits_client=True)
        followers, audience = self.app[FOLLOWERS], Audience(types, readable)
        token = bearer_token(self.request) if PRINCIPAL in self.request else None
        async with followers.subscription(after, self.client) as slot:
            self.deadlines.stop()
            if isinstance(self.request.protocol, Connection):
                self.request.protocol.closes_with_client = True
            await response.prepare(self.request)
            await followers.follow(self.request, response, audience, after, slot, token)
        await response.write_eof()
        return response

    head = get

    def _after(self, query: FeedQuery) -> ClusterTime | None:
        """Return the time of the position in the request. Raises PositionRejected."""
        last = self.request.headers.get(LAST_EVENT_ID)
        position = last or query.after
        try:
            return None if position is None else self.repository.positions.decode(position)
        except InvalidPosition as error:
            parameter = None if last else AFTER
            raise PositionRejected(str(error), parameter=parameter) from None

    async def _respond_with_positions(self) -> DocumentResponse:
        encode = self.repository.positions.encode
        present = encode(await self.repository.now())
        oldest = await self.repository.oldest_retained_time()
        meta = {"position": present, "oldest": None if oldest is None else encode(oldest)}
        headers = {hdrs.CONTENT_TYPE: MEDIA_TYPE, POSITION: present}
        return DocumentResponse(200, encode_meta({"self": self.url}, meta), headers)

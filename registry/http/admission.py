"""Admission: requests of a class that may take much memory wait for a slot of their bulkhead."""

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from registry.http.app_keys import ADDRESSES, LIMITS, REPOSITORY
from registry.http.routes import Cost, route_of
from registry.offloading import MAX_INLINE_BYTES, pause
from registry.storage import Bulkhead

_LONG_TARGET = 1_000
"""Characters of a request target. Longer queries may take milliseconds to parse: one is parsed per
iteration of the event loop, and none whose client has disconnected by then."""


class Slots:
    """The slots of bulkheads that a request occupies until it ends."""

    __slots__ = ("_entered",)

    def __init__(self) -> None:
        self._entered: list[tuple[Bulkhead, str | None]] = []

    async def enter(self, bulkhead: Bulkhead, client: str | None = None) -> None:
        """Wait for a slot. client: if it decides how long that is occupied. Raises Overloaded."""
        await bulkhead.acquire(client)
        self._entered.append((bulkhead, client))

    def leave(self) -> None:
        """Release all of them."""
        for bulkhead, client in self._entered:
            bulkhead.release(client)


SLOTS = web.RequestKey("slots", Slots)
"""Set for requests that may have a large body, and for followers."""


@web.middleware
async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request begin once there is a slot for what its route may cost.

    Raises HTTPMethodNotAllowed, or Overloaded.
    """
    route = route_of(request)
    if route is None:
        return await handler(request)
    needs = route.needs.get(request.method)
    if needs is None:
        raise web.HTTPMethodNotAllowed(request.method, route.methods)
    if len(request.raw_path) > _LONG_TARGET:
        await pause()
    cost = needs.cost
    if cost is Cost.SMALL or (cost is Cost.BODY and not _may_be_large(request)):
        return await handler(request)
    app = request.app
    bulkheads = app[REPOSITORY].bulkheads
    bulkhead = bulkheads.followers if cost is Cost.FOLLOWER else bulkheads.large_bodies
    slots = request[SLOTS] = Slots()
    try:
        await slots.enter(bulkhead, app[ADDRESSES].client_network(request))
        return await handler(request)
    finally:
        slots.leave()


def _may_be_large(request: web.Request) -> bool:
    """Return whether the body is larger than what is parsed at once, or its size is not known."""
    if hdrs.CONTENT_ENCODING in request.headers:
        return True
    size = request.content_length
    if size is None:
        return request.body_exists
    return MAX_INLINE_BYTES < size <= request.app[LIMITS].body_bytes  # a larger one is refused

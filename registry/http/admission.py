"""Admission: requests of a class that may take much memory wait for a slot of their bulkhead."""

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from registry.http.app_keys import ADDRESSES, LIMITS, REPOSITORY
from registry.http.routes import Cost, route_of
from registry.offloading import MAX_INLINE_BYTES, pause

_LONG_TARGET = 1_000
"""Characters of a request target. Longer queries may take milliseconds to parse: one is parsed per
iteration of the event loop, and none whose client has disconnected by then."""


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
    bulkhead = bulkheads.followers if cost is Cost.FOLLOWER else bulkheads.uploads
    async with bulkhead.slot(app[ADDRESSES].client_network(request)):
        return await handler(request)


def _may_be_large(request: web.Request) -> bool:
    """Return whether the body is larger than what is parsed at once, or its size is not known."""
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
        return True
    size = request.content_length
    if size is None:
        return request.body_exists
    return MAX_INLINE_BYTES < size <= request.app[LIMITS].body_bytes  # a larger one is refused

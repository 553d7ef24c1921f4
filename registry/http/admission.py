"""Admission: requests of a class that may take much memory wait for a slot of their bulkhead."""

from collections.abc import Awaitable

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from registry.http.app_keys import ADDRESSES, LIMITS, REPOSITORY
from registry.http.routes import Cost, route_of
from registry.jsonapi.content_negotiation import csv_charset
from registry.offloading import MAX_INLINE_BYTES, pause
from registry.storage import Bulkhead

_LONG_TARGET = 1_000
"""Characters of a request target. Longer queries may take milliseconds to parse: one is parsed per
iteration of the event loop, and none whose client has disconnected by then."""


@web.middleware
def admit(request: web.Request, handler: Handler) -> Awaitable[web.StreamResponse]:
    """Let a request begin once there is a slot for what its route may cost.

    Raises HTTPMethodNotAllowed, or Overloaded.
    """
    route = route_of(request)
    if route is None:
        return handler(request)
    needs = route.needs.get(request.method)
    if needs is None:
        raise web.HTTPMethodNotAllowed(request.method, route.methods)
    bulkhead = None if needs.cost is Cost.SMALL else _bulkhead(request, needs.cost)
    if bulkhead is None and len(request.raw_path) <= _LONG_TARGET:
        return handler(request)
    return _wait(request, handler, bulkhead)


async def _wait(
    request: web.Request, handler: Handler, bulkhead: Bulkhead | None
) -> web.StreamResponse:
    if len(request.raw_path) > _LONG_TARGET:
        await pause()
    if bulkhead is None:
        return await handler(request)
    async with bulkhead.slot(request.app[ADDRESSES].client_network(request)):
        return await handler(request)


def _bulkhead(request: web.Request, cost: Cost) -> Bulkhead | None:
    """Return the bulkhead of a request; None for a body that is small."""
    bulkheads = request.app[REPOSITORY].bulkheads
    if cost is Cost.FOLLOWER:
        return bulkheads.followers
    return bulkheads.uploads if _may_be_large(request) else None


def _may_be_large(request: web.Request) -> bool:
    """Return whether the body may be larger than what is parsed at once, as a file of rows."""
    if csv_charset(request.headers.get(hdrs.CONTENT_TYPE)):
        return True
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
        return True
    size = request.content_length
    if size is None:
        return request.body_exists
    return MAX_INLINE_BYTES < size <= request.app[LIMITS].body_bytes  # a larger one is refused

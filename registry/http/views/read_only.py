"""The base class of views that only read, of paths that are not of JSON:API."""

from aiohttp import hdrs, web


class ReadOnlyView(web.View):
    """A view that supports GET and HEAD."""

    async def options(self) -> web.Response:
        """Respond with the methods of this path in `Allow` (RFC 9110, 9.3.7)."""
        return await allow_reading(self.request)


async def allow_reading(_: web.Request) -> web.Response:
    """Respond to OPTIONS with the methods of a path that can only be read."""
    return web.Response(status=204, headers={hdrs.ALLOW: "GET, HEAD, OPTIONS"})

"""The base class of all views."""

from typing import ClassVar

from aiohttp import hdrs, web

from registry.http.routes import Route


class BaseView(web.View):
    """A view of aiohttp that supports HEAD and OPTIONS. route: what was declared for its path."""

    route: ClassVar[Route]

    async def get(self) -> web.StreamResponse:
        """Respond to GET."""
        raise NotImplementedError

    async def head(self) -> web.StreamResponse:
        """Respond as to GET; aiohttp leaves the body out."""
        return await self.get()

    async def options(self) -> web.Response:
        """Respond with the methods of this path in `Allow` (RFC 9110, 9.3.7)."""
        return web.Response(status=204, headers={hdrs.ALLOW: ", ".join(self.route.methods)})

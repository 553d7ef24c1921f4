"""The view of paths with a slash at their end."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import ClassVar

from aiohttp import hdrs, web

from registry.http.urls import without_trailing_slash
from registry.jsonapi.authorization import Requirement


def mount(app: web.Application, routes: Iterable[web.RouteDef]) -> None:
    """Redirect from the paths of the routes, with a slash added, to those without."""
    app.add_routes([web.view(f"{route.path}/", TrailingSlashView) for route in routes])


class TrailingSlashView(web.View):
    """Redirects to the path without the slash, with the same query and method.

    It requires an access token if the service does, but no scope: it does not look up anything.
    """

    requirements: ClassVar[Mapping[str, Sequence[Requirement]]] = {}

    def __await__(self) -> Generator[None, None, web.StreamResponse]:
        """Call the handler of all methods."""
        return self._redirect().__await__()

    async def _redirect(self) -> web.Response:
        """Respond with 308, upon which clients repeat the method and body (RFC 9110, 15.4.9)."""
        headers = {hdrs.LOCATION: without_trailing_slash(self.request)}
        return web.Response(status=308, headers=headers)

"""The ceiling: a handler that answers everything with the same bytes. PUT tells it which."""

from __future__ import annotations

from aiohttp import web

from benchmark.serving import serve
from registry.jsonapi.content_negotiation import MEDIA_TYPE


class Constant:
    """The handler."""

    def __init__(self) -> None:
        self._body = b""

    async def set(self, request: web.Request) -> web.Response:
        """Take the body of the request for all answers from here on."""
        self._body = await request.read()
        return web.Response(status=204)

    async def answer(self, _: web.Request) -> web.Response:
        """Answer with it."""
        return web.Response(body=self._body, content_type=MEDIA_TYPE)


def main() -> None:
    """Serve until a signal."""
    constant = Constant()
    app = web.Application(client_max_size=2**30)
    app.router.add_put("/", constant.set)
    app.router.add_route("*", "/{path:.*}", constant.answer)
    serve(app)


if __name__ == "__main__":
    main()

"""The upper bound: a server that responds to every request with the same bytes, set by PUT."""

import sys

from aiohttp import web

from benchmark.processes import serve
from registry.protocol import MEDIA_TYPE


class Constant:
    """The handlers, and the bytes that they respond with."""

    def __init__(self) -> None:
        self._body = b""

    async def set_body(self, request: web.Request) -> web.Response:
        """Use the request body as the body of all further responses."""
        self._body = await request.read()
        return web.Response(status=204)

    async def respond(self, _: web.Request) -> web.Response:
        """Respond with that body."""
        return web.Response(body=self._body, content_type=MEDIA_TYPE)


def main() -> None:
    """Serve until a signal."""
    constant = Constant()
    app = web.Application(client_max_size=2**30)
    app.router.add_put("/", constant.set_body)
    app.router.add_route("*", "/{path:.*}", constant.respond)
    serve(app, *sys.argv[1:])


if __name__ == "__main__":
    main()

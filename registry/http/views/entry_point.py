"""The view of the root, from which browsers and clients find everything else."""

from aiohttp import hdrs, web

from registry.http.app_keys import GRAPH, PROXIES, SETTINGS
from registry.http.responses import DocumentResponse
from registry.http.routes import OPERATIONS_PATH, UI_PATH
from registry.http.urls import absolute_url
from registry.http.views.read_only import ReadOnlyView
from registry.jsonapi.content_negotiation import MEDIA_TYPE, check_accept, prefers_html
from registry.jsonapi.documents import encode_meta
from registry.jsonapi.query import reject_parameters
from registry.jsonapi.resource_objects import collection_path

ROOT_PATH = "/"


def mount(app: web.Application) -> None:
    """Serve the root."""
    app.add_routes([web.view(ROOT_PATH, EntryPointView)])


class EntryPointView(ReadOnlyView):
    """Leads browsers to Swagger UI, and tells other clients the URLs of the collections.

    The OpenAPI document, which needs no token either, has the same paths.
    """

    async def get(self) -> web.StreamResponse:
        """Respond with 303 if `Accept` prefers HTML, else with a document that has only `meta`.

        Raises NotAcceptable, or ApiErrors for parameters (JSON:API 1.0, Top Level; RFC 9110,
        15.4.4).
        """
        accept = self.request.headers.getall(hdrs.ACCEPT, ())
        if prefers_html(accept):
            # Relative to the root, which a reverse proxy may serve under a longer path.
            location = f"{UI_PATH.removeprefix(ROOT_PATH)}/"
            return web.Response(status=303, headers={hdrs.LOCATION: location})
        check_accept(accept)
        reject_parameters(self.request.query)
        app = self.request.app
        root = absolute_url(self.request, app[SETTINGS].public_url, app[PROXIES])
        base = root.removesuffix(ROOT_PATH)
        meta = {
            "collections": {one.type: base + collection_path(one) for one in app[GRAPH].values()},
            "operations": base + OPERATIONS_PATH,
            "openapi": f"{base}{UI_PATH}/openapi.json",
            "swagger_ui": f"{base}{UI_PATH}/",
        }
        body = encode_meta({"self": root}, meta)
        return DocumentResponse(200, body, {hdrs.CONTENT_TYPE: MEDIA_TYPE})

    head = get

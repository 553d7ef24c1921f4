"""The application: wiring and lifetimes."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import nullcontext
from functools import partial

from aiohttp import web

from registry.capacity import Capacity
from registry.http import application
from registry.http.access_control import (
    AUTHENTICATOR,
    Authenticator,
    access_notice,
    oidc_verifier,
)
from registry.http.app_keys import (
    GRAPH,
    NOTICE,
    REPOSITORY,
    SETTINGS,
    Limits,
)
from registry.http.followers import FOLLOWERS, Followers
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.openapi.description import describe
from registry.openapi.swagger_ui import mount_swagger_ui
from registry.operations.upgrade import upgrade
from registry.settings import Settings
from registry.storage import Repository, TokenLookups, Tokens, connect, require_complete
from registry.web import mount_page

_PRIMARY_SECONDS = 100.0
"""How long a start waits for a primary. A container that ended at once would be restarted after
longer and longer pauses."""


def create_app(
    settings: Settings,
    *,
    resources: Iterable[ResourceType] | None = None,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    capacity: Capacity | None = None,
    on_failure: Callable[[str], None] = lambda _: None,
) -> web.Application:
    """Return the service, which opens its database at start and closes it at the end.

    resources: by default those of the settings.
    capacity: by default what follows from the settings.
    on_failure: called with the reason if the service has to end.
    Raises InvalidDeclaration if the resources do not fit together, or lack an attribute that is to
    be unique; on startup, raises StartError if the database is unavailable.
    """
    capacity = capacity or Capacity.of(settings)
    app = application.new_application(settings, limits, capacity.response_seconds)
    if resources:
        graph = Graph(resources, settings.revisions).with_unique(settings.unique)
    else:
        graph = settings.graph
    app[GRAPH] = graph
    app.cleanup_ctx.append(partial(_open_repository, capacity, on_failure))
    app.on_shutdown.append(_end_followers)
    routes = application.routes_of_api(graph, settings.page_size)
    routes += application.routes_of_site([route.path for route in routes])
    if settings.metrics_port is None:
        routes.append(application.metrics_route())
    application.mount(app, routes)
    mount_swagger_ui(app, describe(graph, settings))
    mount_page(app)
    return app


async def _end_followers(app: web.Application) -> None:
    await app[FOLLOWERS].close()


async def _open_repository(
    capacity: Capacity, on_failure: Callable[[str], None], app: web.Application
) -> AsyncIterator[None]:
    connecting = connect(app[SETTINGS], app[GRAPH], on_failure, _PRIMARY_SECONDS)
    async with connecting as database:
        await require_complete(database)
        await upgrade(database, app[GRAPH])
        app[REPOSITORY] = Repository(database, app[GRAPH], capacity, on_failure)
        await app[REPOSITORY].prepare()
        lookups = TokenLookups(database, capacity)
        oidc = oidc_verifier(app[SETTINGS], app[GRAPH])
        app[AUTHENTICATOR] = Authenticator(lookups, oidc)
        app[FOLLOWERS] = Followers(app[REPOSITORY], app[AUTHENTICATOR].verify)
        app[NOTICE] = await access_notice(app[SETTINGS], Tokens(database))
        async with oidc.refreshed_keys() if oidc else nullcontext():
            yield
        await lookups.close()
        await app[REPOSITORY].close()

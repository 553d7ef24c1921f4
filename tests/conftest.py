"""One mongod for the whole run, one database for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from uuid import uuid4

import fastjsonschema
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from pymongo import monitoring

from registry.app import create_app
from registry.http.limits import Limits
from registry.http.server import Runner
from registry.model.resource import Resource
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongod import embedded
from tests.mongods import client_of
from tests.support import Api, CommandLog, Database

LIMITS = Limits(arrival_seconds=0.5, linger_seconds=2.0)
"""Short, so that the tests of what does not arrive in time are over soon."""


class _Server(TestServer):
    """A server of the tests, on the runner of the service."""

    async def _make_runner(self, **_: Any) -> Runner:
        return Runner(self.app)


_commands = CommandLog()
monitoring.register(_commands)  # before the first client, which takes its listeners along

Serve = Callable[..., Awaitable[Api]]


@pytest.fixture(scope="session", autouse=True)
def _openapi_schema_compiled_once() -> Iterator[None]:
    """aiohttp-swagger3 compiles the schema of OpenAPI for each app, which takes most of a test."""
    compiled: list[Any] = []
    compile_schema = fastjsonschema.compile

    def compile_once(*arguments: Any, **options: Any) -> Any:
        compiled[:] = compiled or [compile_schema(*arguments, **options)]
        return compiled[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fastjsonschema, "compile", compile_once)
        yield


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def mongodb_uri(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("mongod"))
    async with embedded.mongod(settings) as uri:
        yield uri


@pytest.fixture
def settings(mongodb_uri: str) -> Settings:
    return Settings(mongodb_uri=mongodb_uri, database=f"test_{uuid4().hex}")


@pytest.fixture
async def database(mongodb_uri: str, settings: Settings) -> AsyncIterator[Database]:
    """The stored documents, past the service."""
    async with client_of(mongodb_uri) as client:
        yield client[settings.database]
        await client.drop_database(settings.database)


@pytest.fixture
async def serve(
    settings: Settings,
    database: Database,  # noqa: ARG001 - dropped after the service
) -> AsyncIterator[Serve]:
    """Start the service, with other types or settings than its own where a test says so."""
    clients: list[TestClient[web.Request, web.Application]] = []

    async def start(
        resources: tuple[Resource, ...] = RESOURCES,
        settings: Settings = settings,
        limits: Limits = LIMITS,
    ) -> Api:
        app = create_app(settings, resources=resources, limits=limits)
        clients.append(TestClient(_Server(app)))
        await clients[-1].start_server()
        return Api(clients[-1])

    yield start
    for client in clients:
        await client.close()


@pytest.fixture
async def api(serve: Serve) -> Api:
    """The running service."""
    return await serve()


@pytest.fixture
def commands() -> CommandLog:
    """The commands sent to MongoDB from here on."""
    _commands.take("all")
    return _commands

"""One mongod per test run, one database per test."""

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
from registry.model.attributes import Text
from registry.model.resource import Resource
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongod import embedded
from tests.mongods import client_of
from tests.support import Api, CommandLog, Database

LIMITS = Limits(arrival_seconds=0.5, linger_seconds=2.0)
"""Short time limits, so that tests of slow and incomplete requests are quick."""


class _Server(TestServer):
    """aiohttp's test server on the runner of the service."""

    async def _make_runner(self, **_: Any) -> Runner:
        return Runner(self.app)


_commands = CommandLog()
# Before the first client: only later clients have the listener.
monitoring.register(_commands)

Serve = Callable[..., Awaitable[Api]]


@pytest.fixture(scope="session", autouse=True)
def _openapi_schema_compiled_once() -> Iterator[None]:
    """Cache the compiled OpenAPI schema: compiling it for every app takes most of a test's time."""
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
    """The database of the service, accessed directly."""
    async with client_of(mongodb_uri) as client:
        yield client[settings.database]
        await client.drop_database(settings.database)


@pytest.fixture
async def serve(
    settings: Settings,
    database: Database,  # noqa: ARG001 - is dropped after the service has stopped
) -> AsyncIterator[Serve]:
    """A function that starts the service, with other resource types or settings if given."""
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
def serialization_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored bytes, where text belongs, raise an error, as a defect of the service would."""
    to_json = Text.to_json

    def fail(attribute: Text, value: Any) -> Any:
        if isinstance(value, bytes):
            raise TypeError("a defect")
        return to_json(attribute, value)

    monkeypatch.setattr(Text, "to_json", fail)


@pytest.fixture
def commands() -> CommandLog:
    """The commands sent to MongoDB since the test started."""
    _commands.take("all")
    return _commands

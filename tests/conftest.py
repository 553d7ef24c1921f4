"""One mongod per test process, whose empty databases tests use one after another."""

import gc
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import fastjsonschema
import hypothesis
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from bson.codec_options import CodecOptions
from hypothesis import HealthCheck
from pymongo import MongoClient, monitoring
from pytest_aiohttp.plugin import AiohttpClient

from registry.access.principal import digest_of, new_token
from registry.app import create_app
from registry.capacity import Capacity
from registry.http.app_keys import REPOSITORY, SETTINGS, Limits
from registry.http.server import Runner
from registry.model.resource_type import ResourceType
from registry.mongod import embedded
from registry.settings import Settings
from registry.storage.tokens import Token, Tokens
from registry.testing import Databases, data_directory, new_name, prepare
from tests.mongods import client_of
from tests.programs import free_port
from tests.servers import Server
from tests.support import Api, Client, CommandLog, Database

LIMITS = Limits(linger_seconds=2.0)
"""A client that is refused while it sends may do so for a short time only: tests wait for it."""

HURRIED = replace(LIMITS, arrival_seconds=0.5)
"""For requests that do not arrive. Those of other tests may take as long as the machine does."""

# Machines may be slow, and examples of one test share its fixtures.
hypothesis.settings.register_profile(
    "tests",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("tests")

# Otherwise, wherever it is set, each of hundreds of services compiles all of its modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def _new_runner(app: web.Application) -> Runner:
    return Runner(app, access_log=app[SETTINGS].access_log == "on")


_commands = CommandLog()
# Before the first client: only later clients have the listener.
monitoring.register(_commands)

Serve = Callable[..., Awaitable[Api]]

Grant = Callable[..., Awaitable[str]]

Header = Callable[..., Awaitable[dict[str, str]]]


def pytest_collection_finish() -> None:
    """Collect garbage less often, and never among the tests and modules: 16 % of the CPU time."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that have the most slow tests, so that no core is idle in the end."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@pytest.fixture(scope="session", autouse=True)
def _schemas_are_compiled_once() -> Iterator[None]:
    """aiohttp-swagger3 compiles the same schema for each application, which takes 0.14 s."""
    compiled: dict[str, Any] = {}
    compile_ = fastjsonschema.compile

    def compile_once(schema: Any, **options: Any) -> Any:
        key = json.dumps([schema, options])
        if key not in compiled:
            compiled[key] = compile_(schema, **options)
        return compiled[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fastjsonschema, "compile", compile_once)
        yield


@pytest.fixture(scope="session")
def unused_tcp_port_factory() -> Callable[[], int]:
    """A function that returns free ports; those of pytest-asyncio may be taken by a connection."""
    return free_port


@pytest.fixture
def unused_tcp_port() -> int:
    """A free port."""
    return free_port()


@pytest.fixture(scope="session")
def data_dir() -> Iterator[Path]:
    """A directory for mongod."""
    with data_directory() as path:
        yield path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def mongodb_uri(data_dir: Path) -> AsyncIterator[str]:
    async with embedded.mongod(Settings(data_dir=data_dir)) as uri:
        yield uri


@pytest.fixture(scope="session")
def drop(mongodb_uri: str) -> Iterator[Callable[[str], object]]:
    """A function that drops a database in the background: MongoDB takes 100 ms, mostly waiting."""
    with MongoClient[Any](mongodb_uri) as client, ThreadPoolExecutor(max_workers=1) as thread:
        yield lambda name: thread.submit(client.drop_database, name)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def databases(mongodb_uri: str) -> AsyncIterator[Databases]:
    """The databases that tests use one after another."""
    await prepare(Settings(mongodb_uri=mongodb_uri, database=(name := new_name())))
    with MongoClient[Any](mongodb_uri) as client:
        yield Databases(client, name)


@pytest.fixture
def database_name(databases: Databases, drop: Callable[[str], object]) -> Iterator[str]:
    """The name of a database without documents; earlier tests may have used it."""
    yield (name := databases.take())
    if not databases.put_back(name):
        drop(name)


@pytest.fixture
def settings(mongodb_uri: str, database_name: str) -> Settings:
    return Settings(
        mongodb_uri=mongodb_uri,
        database=database_name,
        allowed_host=("h", "fleet.example", "proxy.example"),  # of raw requests
        query_seconds=60.0,  # which a slow machine does not exceed
    )


@pytest.fixture
async def database(mongodb_uri: str, settings: Settings) -> AsyncIterator[Database]:
    """The database of the service, accessed directly."""
    async with client_of(mongodb_uri) as client:
        # As the service reads it.
        yield client.get_database(settings.database, CodecOptions(tz_aware=True))


@pytest.fixture
async def _new_database(database: Database) -> None:
    """The database of the test is as before the first start of a service."""
    await database.client.drop_database(database.name)


@pytest.fixture
def serve(settings: Settings, aiohttp_client: AiohttpClient) -> Serve:
    """A function that starts the service, with other resource types or settings if given.

    catch_up: whether to wait until it has completed the work of its start. on_runner: whether on
    the runner of the service, not on aiohttp's own. capacity: fields of its Capacity that differ
    from what follows from the settings.
    """

    async def start(
        resources: tuple[ResourceType, ...] | None = None,
        settings: Settings = settings,
        limits: Limits = LIMITS,
        *,
        catch_up: bool = True,
        on_runner: bool = True,
        **capacity: Any,
    ) -> Api:
        # On a slow machine, no response is late, and no request has waited for too long.
        changed = {"response_seconds": 60.0, "queue_seconds": 60.0} | capacity
        given = replace(Capacity.of(settings), **changed)
        app = create_app(settings, resources=resources, limits=limits, capacity=given)
        server = Server(app, _new_runner) if on_runner else TestServer(app)
        try:
            await server.start_server()
        except BaseException:  # before there is a client, which would not be closed
            await server.close()
            raise
        client: Client = await aiohttp_client(server)
        if catch_up:  # otherwise its commands would be among those of the requests
            await app[REPOSITORY].catch_up()
        return Api(client)

    return start


@pytest.fixture
async def api(serve: Serve) -> Api:
    """The running service."""
    return await serve()


@pytest.fixture
def secured(settings: Settings) -> Settings:
    """The settings of a service that requires access tokens."""
    return replace(settings, auth="on")


@pytest.fixture
async def guarded(serve: Serve, secured: Settings) -> Api:
    """A service that requires access tokens."""
    return await serve(settings=secured)


@pytest.fixture
def grant(database: Database) -> Grant:
    """A function that stores an access token with these scopes and returns it."""
    names = map(str, count())

    async def grant(*scopes: str, **more: Any) -> str:
        text = new_token()
        token = Token(next(names), frozenset(scopes), datetime.now(UTC), **more)
        await Tokens(database).create(token, digest_of(text))
        return text

    return grant


@pytest.fixture
def header(grant: Grant) -> Header:
    """A function that returns the header with a new token with these scopes."""

    async def header(*scopes: str, **more: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer {await grant(*scopes, **more)}"}

    return header


@pytest.fixture
def commands() -> CommandLog:
    """The commands sent to MongoDB since the test started."""
    _commands.take("all")
    return _commands

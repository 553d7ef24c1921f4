"""The client: its options, the clusters that it rejects, and its threads."""

import asyncio
import re
from dataclasses import replace
from tempfile import TemporaryDirectory

import motor.frameworks.asyncio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo.client_options import ClientOptions
from pymongo.read_preferences import ReadPreference

from registry.capacity import THREADS
from registry.model.graph import Graph
from registry.program import StartError
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongo import mongo_client
from registry.storage.mongo.mongo_client import connect
from tests.mongods import connection_error, initiate, other_mongod, program_of
from tests.programs import free_port
from tests.waiting import eventually

GRAPH = Graph(RESOURCES)


async def test_the_uri_cannot_change_the_options_of_the_service(settings: Settings) -> None:
    uri = f"{settings.mongodb_uri}&w=0&journal=false&readPreference=secondary&tz_aware=true"
    async with connect(replace(settings, mongodb_uri=uri), GRAPH) as database:
        assert database.name == settings.database
        assert database.write_concern.document == {"w": "majority", "j": True, "wtimeout": 10_000}
        assert database.read_preference == ReadPreference.PRIMARY
        assert database.codec_options.tz_aware


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("postgres://secret@db", "not a URI such as mongodb://"),
        ("mongodb://", "not a URI such as mongodb://"),
        ("mongodb://me:sec@ret@db", "percent-encoded"),
        ("mongodb+srv://me:1/sec?ret@db", "percent-encoded"),
        ("mongodb://me:1/sec:ret", "percent-encoded"),
        ("mongodb://me:sec%ret@db", "must be escaped"),
        ("mongodb://db/?tls=true&tlsCertificateKeyFilePassword=sec&ret=1", "one of its options"),
        ("mongodb://db/?authMechanismProperties=sec:ret", "one of its options"),
        ("mongodb://me:secret@db:99999", "Port must be"),
        ("mongodb://me:secret@db/?nonsense=1", "Unknown option: nonsense"),
        ("mongodb://me:secret@db/?tlsCAFile=/nothing&tls=true", "No such file"),
        ("mongodb://me:secret@db/?readPreferenceTags=a:b", "cannot be combined"),
    ],
)
async def test_a_uri_that_cannot_be_used_is_rejected_without_its_secrets(
    uri: str, reason: str
) -> None:
    message = await connection_error(uri)
    assert reason in message
    assert not {"sec", "ret", "secret"} & set(re.split(r"\W+", message))


SECRET = st.text(st.sampled_from(":/?#[]@%!$&'();*+,=\"\\ \n.1ü"), max_size=4).map(
    lambda text: f"k7{text}q9"
)
"""A user name or password: whatever separates its two halves, neither may appear."""


@given(
    scheme=st.sampled_from(["mongodb://", "mongodb+srv://", "mongodb:/", "mongo://", ""]),
    user=SECRET,
    password=SECRET,
    rest=st.sampled_from(["db", "db:1", "db:x", "a,b/c", "[::1]", "", "db/?nonsense=1", "db?w=x"]),
    missing=st.integers(0, 80),
    option=st.one_of(st.just(""), SECRET.map("/?tlsCertificateKeyFilePassword={}".format)),
)
def test_no_uri_reveals_its_secrets(
    scheme: str, user: str, password: str, rest: str, option: str, missing: int
) -> None:
    uri, message = f"{scheme}{user}:{password}@{rest}{option}", ""
    try:
        mongo_client._open(uri[:missing] + uri[missing + 1 :], 1).close()
    except StartError as error:
        message = str(error)
    assert not re.search("k7|q9", message, re.IGNORECASE)


@pytest.mark.slow
async def test_an_unreachable_cluster_is_named_without_its_secrets(unused_tcp_port: int) -> None:
    message = await connection_error(f"mongodb://me:secret@127.0.0.1:{unused_tcp_port}")
    refused = f"MONGODB_URI: 127.0.0.1:{unused_tcp_port}: [Errno 111] Connection refused; "
    assert message == f"{refused}{mongo_client._ADVICE}"


@pytest.mark.slow
async def test_a_start_waits_for_the_primary(
    mongodb_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    program = await program_of(mongodb_uri)
    uri = f"mongodb://127.0.0.1:{port}/?replicaSet=late"
    connecting = connect(Settings(mongodb_uri=uri), GRAPH, wait_seconds=60)
    entering = asyncio.ensure_future(connecting.__aenter__())
    assert await eventually(lambda: caplog.records)
    assert "Waiting for the primary of MONGODB_URI: " in caplog.text
    with TemporaryDirectory() as home:
        options = ("--port", str(port), "--dbpath", home, "--replSet", "late", "--nounixsocket")
        process = await asyncio.create_subprocess_exec(
            program, *options, stdout=asyncio.subprocess.DEVNULL
        )
        try:
            direct = f"mongodb://127.0.0.1:{port}/?directConnection=true"
            await initiate(direct, f"127.0.0.1:{port}", "late")
            assert (await entering).name == "registry"
            await connecting.__aexit__(None, None, None)
        finally:
            process.terminate()
            await process.wait()
    assert len(caplog.records) == 1


@pytest.mark.slow
async def test_a_mongod_outside_of_a_replica_set_is_rejected(mongodb_uri: str) -> None:
    async with other_mongod(mongodb_uri) as uri:
        error = await connection_error(uri)
    assert "not a member of a replica set: start it with --replSet" in error


@pytest.mark.slow
async def test_a_replica_set_that_was_not_initiated_is_rejected(mongodb_uri: str) -> None:
    async with other_mongod(mongodb_uri, "--replSet", "other") as uri:
        assert "initiate the set" in await connection_error(uri)
        assert "No servers match selector" in await connection_error(uri.partition("?")[0])


async def test_all_threads_have_a_connection(settings: Settings) -> None:
    """With fewer threads, as motor has by default, slow queries would block all writes."""
    async with connect(settings, GRAPH) as database:
        # Motor's annotations take this property for a method.
        options: ClientOptions = database.client.options  # type: ignore[assignment]
        assert options.pool_options.max_pool_size == THREADS
    assert motor.frameworks.asyncio._EXECUTOR._max_workers == THREADS

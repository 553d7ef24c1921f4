"""A MongoDB with TLS and users: the privileges that the service needs, and what it reports."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from registry.model.graph import Graph
from registry.program import StartError
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongo.mongo_client import connect
from registry.storage.validators import prepare_validators
from tests.certificates import Authority
from tests.conftest import Serve
from tests.mongods import client_of, connection_error, initiate, leave_transaction, program_of
from tests.programs import free_port
from tests.support import Api, CommandLog, new

pytestmark = pytest.mark.slow

DATABASE = "registry"

OPTIONS = (
    *("--replSet", "secured", "--bind_ip", "127.0.0.1", "--nounixsocket"),
    *("--tlsMode", "requireTLS", "--tlsAllowConnectionsWithoutCertificates"),
)


@asynccontextmanager
async def secured_mongod(program: str, authority: Authority) -> AsyncIterator[str]:
    """Start a primary that requires TLS and a password; yield its URI for an administrator."""
    port = str(free_port())
    *_, certificate = authority.issue("mongod")
    key = authority.home / "keyfile"
    key.write_text("x" * 64)
    key.chmod(0o600)
    data = authority.home / "data"
    data.mkdir()
    process = await asyncio.create_subprocess_exec(
        *(program, "--dbpath", str(data), "--port", port, "--keyFile", str(key), *OPTIONS),
        *("--tlsCertificateKeyFile", str(certificate), "--tlsCAFile", str(authority.certificate)),
        stdout=asyncio.subprocess.DEVNULL,
    )
    uri = f"mongodb://localhost:{port}/?tls=true&tlsCAFile={authority.certificate}"
    try:
        direct = f"{uri}&directConnection=true"
        await initiate(direct, f"localhost:{port}", "secured")
        async with client_of(direct) as admin:
            await admin.admin.command({"createUser": "admin", "pwd": "secret", "roles": ["root"]})
        yield uri.replace("//", "//admin:secret@")
    finally:
        process.terminate()
        await process.wait()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("secured"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def secured_uri(mongodb_uri: str, authority: Authority) -> AsyncIterator[str]:
    """The URI for a user who may read and write the database of the service, and no more."""
    program = await program_of(mongodb_uri)
    async with secured_mongod(program, authority) as uri, client_of(uri) as admin:
        roles = [{"role": "readWrite", "db": DATABASE}]
        await admin.admin.command({"createUser": "service", "pwd": "p@ss", "roles": roles})
        yield uri.replace("admin:secret", "service:p%40ss")


@pytest.fixture
def settings(secured_uri: str) -> Settings:
    return Settings(mongodb_uri=secured_uri, database=DATABASE, allowed_host=("h",))


async def patch(api: Api, id_: str, **attributes: str) -> int:
    return (await api.patch(f"/persons/{id_}", new("person", **attributes))).status


async def test_the_role_readwrite_on_the_database_is_enough(
    serve: Serve,
    commands: CommandLog,
    secured_uri: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    commands.denied.clear()
    api = await serve()
    grace, ada = await api.person("Grace"), await api.person("Ada")
    computer = await api.computer("SN-1", owner=grace)
    assert (await api.set_computers(ada, computer)).status == 200
    assert await patch(api, grace, email="grace@example.com") == 200

    for total in (2, 3):
        page = await api.get("/persons?page[number]=1&page[size]=1")
        assert page.document["meta"]["total"] == total
        await api.person("Alan")
    heavy = "/persons?filter[first_name][contains]=a&sort=-last_name,first_name&page[size]=2"
    for path in ("/persons?include=computers", heavy, "/computers?sort=owner.last_name"):
        assert (await api.get(path)).status == 200

    # A transaction of a killed process is found ($currentOp) and ended (killSessions).
    await leave_transaction(secured_uri, DATABASE, int(ada))
    assert await patch(api, ada, last_name="Lovelace") == 200
    assert (await api.request("DELETE", f"/persons/{ada}")).status == 204
    assert commands.denied == set()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("credentials", "reason"),
    [
        ("service:wrong@", "Authentication failed"),
        ("", "requires authentication"),
        ("service:%07@", "prohibited character"),
    ],
)
async def test_wrong_credentials_are_reported(
    secured_uri: str, credentials: str, reason: str
) -> None:
    message = await connection_error(secured_uri.replace("service:p%40ss@", credentials))
    assert reason in message
    assert not [text for text in ("p%40ss", "p@ss", "wrong") if text in message]


async def test_a_server_that_cannot_be_trusted_is_reported(
    secured_uri: str, tmp_path: Path
) -> None:
    certificate = Authority(tmp_path).certificate
    uri = secured_uri.partition("tlsCAFile=")[0] + f"tlsCAFile={certificate}"
    assert "certificate verify failed" in await connection_error(uri)
    without_tls = secured_uri.partition("?")[0]
    assert "connection closed" in await connection_error(without_tls)


async def test_a_database_that_the_user_may_not_write_is_reported(settings: Settings) -> None:
    refused = r"^MONGODB_URI: not authorized on other to execute command `\w+`; correct it"
    with pytest.raises(StartError, match=refused):
        async with connect(replace(settings, database="other"), Graph(RESOURCES)):
            pass


async def test_a_start_needs_the_privilege_to_set_a_validator_that_differs(
    serve: Serve, secured_uri: str
) -> None:
    await serve()
    async with client_of(secured_uri.replace("service:p%40ss", "admin:secret")) as admin:
        await admin[DATABASE].command("collMod", "persons", validator={})
        reason = (
            "cannot set the validator of persons: not authorized on registry to execute command "
            r'`collMod`; in mongosh, as an administrator: db.getSiblingDB\("admin"\)'
            r'.grantRolesToUser\("service", \[{role: "dbAdmin", db: "registry"}\]\)$'
        )
        with pytest.raises(StartError, match=reason):
            await serve()
        await prepare_validators(admin[DATABASE], Graph(RESOURCES))
    await serve()

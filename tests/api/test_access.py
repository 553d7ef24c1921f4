"""Access control: what a request needs an access token for, and which scopes."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from itertools import product

import orjson
import pytest
from aiohttp import hdrs, web
from pytest_aiohttp.plugin import AiohttpClient

from registry.access.principal import Principal, new_token
from registry.app import create_app
from registry.http.app_keys import NOTICE
from registry.http.request_recorder import Entry
from registry.offloading import MAX_INLINE_BYTES
from registry.settings import Settings
from registry.storage.tokens import TokenLookups, Tokens
from tests.conftest import LIMITS, Grant, Header, Serve
from tests.support import (
    COMPUTER,
    MEDIA_TYPE,
    PERSON,
    Api,
    CommandLog,
    Database,
    add,
    declared_routes,
    new,
    to_many,
    to_one,
)

METHODS = sorted(hdrs.METH_ALL - {hdrs.METH_CONNECT})
TOKEN = "reg_0000000000000000000000000000000000000000000jlcZC2"
"""A token whose form is valid; a random one would give a test another name in each process."""

SCOPES = ["read", "write", "persons:read", "persons:write", "computers:read", "computers:write"]

PUBLIC = {
    *("/", "/api/page/{name}", "/api/swagger", "/api/swagger/", "/api/swagger/swagger.json"),
    *("/api/swagger/openapi.json", "/api/swagger/swagger_ui_static"),
    "/api/swagger/swagger_ui_static/{name}",
    *("/health/live", "/health/ready"),
}
PERSONS, COMPUTERS = frozenset({"persons"}), frozenset({"computers"})

TYPES = {
    **dict.fromkeys(("/persons", "/persons/{id}"), PERSONS),
    **dict.fromkeys(("/computers", "/computers/{id}"), COMPUTERS),
    **dict.fromkeys(
        (
            *("/persons/{id}/computers", "/persons/{id}/relationships/computers"),
            *("/computers/{id}/owner", "/computers/{id}/relationships/owner"),
            *("/assignments", "/assignments/{id}", "/metrics"),
            *(f"/assignments/{{id}}/{end}" for end in ("computer", "owner")),
            *(f"/assignments/{{id}}/relationships/{end}" for end in ("computer", "owner")),
            *(f"/{name}/{{id}}/assignments" for name in ("persons", "computers")),
            *(f"/{name}/{{id}}/relationships/assignments" for name in ("persons", "computers")),
        ),
        PERSONS | COMPUTERS,
    ),
    # Depend on the document, and on the types that are followed.
    **dict.fromkeys(("/operations", "/changes"), frozenset[str]()),
}
"""The collections whose types each path reads or writes."""


@pytest.fixture
def api(guarded: Api) -> Api:
    """A service that requires access tokens."""
    return guarded


def is_sufficient(scope: str, method: str, collections: frozenset[str]) -> bool:
    allowed, _, action = scope.rpartition(":")
    if collections - ({allowed} if allowed else {"persons", "computers"}):
        return False
    return not collections or method in {"GET", "HEAD"} or action == "write"


def supported_methods(secured: Settings) -> dict[str, set[str]]:
    """Return the methods of each path of the service."""
    methods: dict[str, set[str]] = {}
    app = create_app(secured, limits=LIMITS)
    for declared in declared_routes(app):
        methods[declared.path] = {*declared.methods}
    for route in app.router.routes():
        assert route.resource
        if not hasattr(route.handler, "route"):  # of files
            methods.setdefault(route.resource.canonical, set()).add(route.method)
    return methods


async def test_every_route_requires_the_scopes_of_its_types(
    api: Api, header: Header, secured: Settings
) -> None:
    routes = supported_methods(secured)
    assert routes.keys() == PUBLIC | TYPES.keys(), "a route is missing in the table"
    tokens = {scope: await header(scope) for scope in SCOPES}
    wrong = {"Authorization": f"Bearer {new_token()}"}
    for path, method in product(routes, METHODS):
        target = path.format(id=1, name="index.html")
        if path in PUBLIC:
            allowed = {200, 204, 301, 404} if method in routes[path] else {405}
            assert await status(api, method, target, {}) in allowed, (method, target)
            continue
        expected = 204 if method == "OPTIONS" else 401
        assert await status(api, method, target, {}) == expected, (method, path)
        assert await status(api, method, target, wrong) == expected, (method, path)
        for scope, sent in tokens.items():
            found = await status(api, method, target, sent)
            if method not in routes[path]:
                assert found == 405
            elif method == "OPTIONS" or is_sufficient(scope, method, TYPES[path]):
                assert found in {200, 204, 404, 415}, (method, path, scope)
            else:
                assert found == 403, (method, path, scope)


async def test_every_route_has_own_methods(api: Api, header: Header, secured: Settings) -> None:
    sent = await header("write")
    for path, methods in supported_methods(secured).items():
        url = path.format(id=1, name="index.html")
        response = await api.fetch(url, "OPTIONS")
        assert (response.status, response.body) == (204, b""), path
        assert set(response.headers["Allow"].split(", ")) == methods, path
        for method in {*METHODS, "PROPFIND"} - methods:
            response = await api.fetch(url, method, **sent)
            assert response.status == 405, (method, path)
            assert set(response.headers["Allow"].split(", ")) == methods, (method, path)
            assert method == "HEAD" or "errors" in response.text, (method, path)


async def status(api: Api, method: str, path: str, headers: dict[str, str]) -> int:
    return (await api.fetch(path, method, **headers)).status


async def test_parameters_require_the_scopes_of_the_types_they_read(
    api: Api, header: Header
) -> None:
    below = (
        '{"not": {"name": "computers", "op": "any", "val": {"name": "id", "op": "lt", "val": 2}}}'
    )
    for path, queries, scopes in (
        (
            "/persons",
            (
                *("include=computers", "filter[computers.serial]=x", f"filter=[{below}]"),
                *("withCount=computers", "withCount=assignments"),
            ),
            ("persons:read", "computers:read"),
        ),
        (
            "/computers",
            (
                *("include=owner", "sort=owner", "sort=serial,-owner.last_name"),
                *("filter[owner]=1,null", "filter[owner.last_name][prefix]=H"),
            ),
            ("computers:write", "persons:read"),
        ),
    ):
        sufficient, lacking = await header(*scopes), await header(scopes[0])
        for query in queries:
            response = await api.get(f"{path}?{query}", **lacking)
            assert response.errors == [(403, query.partition("=")[0])]
            assert response.headers["WWW-Authenticate"] == (
                f'Bearer realm="registry", error="insufficient_scope", scope="{scopes[1]}"'
            )
            assert f"`{scopes[1]}`" in response.document["errors"][0]["detail"]
            assert (await api.get(f"{path}?{query}", **sufficient)).status == 200


async def test_a_changed_link_requires_write_scopes_of_both_types(api: Api, header: Header) -> None:
    one, both = await header("computers:write"), await header("computers:write", "persons:write")
    reader = await header("persons:write", "computers:read")
    person = await api.create(PERSON, **both)
    owned = new("computer", {"owner": to_one(person)}, serial="SN-1")
    refused = await api.post("/computers", owned, **one)
    assert refused.errors == [(403, "/data/relationships/owner")]
    assert 'scope="persons:write"' in refused.headers["WWW-Authenticate"]
    members = f"/persons/{person}/relationships/computers"
    for method, path, data, sent, status in (
        ("POST", "/computers", owned, both, 201),
        ("PATCH", "/computers/1", new("computer", {"owner": to_one(None)}), one, 403),
        ("PATCH", "/computers/1", new("computer", serial="SN-2"), one, 200),
        ("POST", members, to_many("1")["data"], reader, 403),
        ("DELETE", f"/persons/{person}", None, reader, 204),
    ):
        assert (await api.send(method, path, data, **sent)).status == status, (method, path)


async def test_each_operation_requires_the_scopes_of_its_type(api: Api, header: Header) -> None:
    person = {"type": "person", "lid": "p"}
    owner = {"type": "computer", "lid": "c", "relationship": "owner"}
    operations = (
        *[add(COMPUTER, "c"), add(PERSON, "p"), {"op": "update", "ref": owner, "data": person}],
        {"op": "remove", "ref": person},
    )
    response = await api.operate(*operations, **await header("computers:write"))
    assert response.errors == [(403, f"/atomic:operations/{index}") for index in (1, 2, 3)]
    assert 'scope="persons:write"' in response.headers["WWW-Authenticate"]
    assert (await api.operate(*operations, **await header("write"))).status == 200


async def test_a_request_without_a_token_is_refused(api: Api, serve: Serve) -> None:
    other_scheme = {"Authorization": "Basic Z3JhY2U6aG9wcGVy"}
    for headers in ({}, other_scheme):
        response = await api.get("/persons/1", **headers)
        assert response.errors == [(401, "")]
        assert response.headers["WWW-Authenticate"] == 'Bearer realm="registry"'
    public = await serve()
    for headers in ({}, other_scheme, {"Authorization": "Bearer x"}):
        assert (await public.get("/persons", **headers)).status == 200


async def test_malformed_tokens_are_not_looked_up(api: Api, commands: CommandLog) -> None:
    commands.names()
    for token in ("x", "reg_", TOKEN[:-1], TOKEN + "x", "a b", "é", "eyJhbGciOiJub25lIn0.e30."):
        response = await api.get("/persons", Authorization=f"Bearer {token}")
        assert response.errors == [(401, "")]
        asked = response.headers["WWW-Authenticate"]
        assert asked == 'Bearer realm="registry", error="invalid_token"'
        assert token not in response.document["errors"][0]["detail"].split()
    assert commands.names() == []


async def test_headers_need_one_token(api: Api) -> None:
    for lines, status, code in (
        (b"Authorization: Bearer " + b"reg_\xff\xfe" * 9, 401, "invalid_token"),
        *((b"Authorization: Bearer" + end, 400, "invalid_request") for end in (b"", b" ", b"   ")),
        (b"\r\n".join([b"Authorization: Bearer %s" % TOKEN.encode()] * 2), 400, "invalid_request"),
    ):
        head = b"GET /persons HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
        found, document = await api.raw(head + lines + b"\r\n\r\n")
        assert (found, document["errors"][0]["code"]) == (status, code)


async def test_no_token_in_a_url_is_logged(
    api: Api, header: Header, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sent = await header("read")
    token = sent["Authorization"].removeprefix("Bearer ")
    assert (await api.get(f"/persons?access_token={token}")).status == 401
    response = await api.get(f"/persons?access_token={token}", **sent)
    assert response.errors == [(400, "access_token")]
    assert (await api.get(f"/persons/{token}", **sent)).status == 404
    assert "/persons?access_token=..." in caplog.text
    assert token not in caplog.text


async def test_a_refusal_is_logged_with_the_address_of_the_client(
    serve: Serve, secured: Settings, header: Header, caplog: pytest.LogCaptureFixture
) -> None:
    api = await serve(settings=replace(secured, trusted_proxy=(ip_network("127.0.0.1/32"),)))
    caplog.set_level(logging.INFO)
    forwarded = {"X-Forwarded-For": "192.0.2.1, 198.51.100.7"}
    for sent, status in (
        ({}, 401),
        ({"Authorization": f"Bearer {TOKEN}"}, 401),
        ({"Authorization": "Bearer"}, 400),
        (await header("persons:read"), 403),
    ):
        caplog.clear()
        response = await api.get("/computers", **sent, **forwarded)
        assert response.status == status
        (line,) = caplog.messages
        id_ = response.headers["X-Request-ID"]
        assert line.startswith(f"GET '/computers' {id_} from 198.51.100.7 -> {status} ")


async def test_ended_tokens_are_rejected_with_the_reason(api: Api, header: Header) -> None:
    expired = await header("read", expires=datetime.now(UTC) - timedelta(seconds=1))
    revoked = await header("read", revoked=datetime.now(UTC))
    foreign = {"Authorization": f"Bearer {new_token()}"}
    for sent, reason in ((expired, "expired"), (revoked, "revoked"), (foreign, "unknown")):
        response = await api.get("/persons", **sent)
        assert response.errors == [(401, "")]
        assert reason in response.document["errors"][0]["detail"]


@pytest.mark.parametrize("field", ["revoked", "expires"])
async def test_a_token_that_ends_before_the_body_arrives_writes_nothing(
    field: str, serve: Serve, secured: Settings, header: Header, database: Database
) -> None:
    api = await serve(settings=secured, token_seconds=0.0)

    async def end_token_and_send() -> AsyncIterator[bytes]:
        await database["tokens"].update_many({}, {"$set": {field: datetime.now(UTC)}})
        yield orjson.dumps({"data": PERSON})

    # The client sends the body once the service, which knows the token by then, asks for it.
    sent = await header("write") | {"Expect": "100-continue"}
    refused = await api.request("POST", "/persons", end_token_and_send(), sent)
    assert refused.errors == [(401, "")]
    assert await database["persons"].count_documents({}) == 0


async def test_a_token_revoked_while_a_document_waits_writes_nothing(
    serve: Serve,
    secured: Settings,
    header: Header,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = await serve(settings=secured, token_seconds=0.0)
    find = TokenLookups.find

    async def find_and_revoke(lookups: TokenLookups, digest: bytes) -> Principal:
        principal = await find(lookups, digest)
        await Tokens(database).revoke(principal.name)
        return principal

    monkeypatch.setattr(TokenLookups, "find", find_and_revoke)
    body = orjson.dumps({"data": PERSON}).ljust(MAX_INLINE_BYTES + 1)
    fields = {**await header("write"), "Content-Type": MEDIA_TYPE, "Content-Length": len(body)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    head = f"POST /persons HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\n"
    # In one piece, so that the body arrives with the head.
    status, document = await api.raw(head.encode() + body)
    assert (status, document["errors"][0]["detail"]) == (401, "The access token was revoked.")
    assert await database["persons"].count_documents({}) == 0


async def test_a_service_without_tokens_shows_how_to_create_one(
    serve: Serve, settings: Settings, grant: Grant
) -> None:
    exposed = replace(settings, host="192.0.2.1", public_url="https://registry.example.com")
    command = "./scripts/registry token create --name NAME --scope write --database "
    assert f"`{command}{settings.database}`" in (await serve(settings=exposed)).app[NOTICE]
    await grant("read")
    assert (await serve(settings=exposed)).app[NOTICE] == ""


async def test_the_access_log_names_a_client_whose_scopes_do_not_suffice(
    serve: Serve,
    secured: Settings,
    header: Header,
    database: Database,
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = await serve(settings=replace(secured, access_log="on"))
    sent = await header("persons:read")
    (stored,) = await Tokens(database).find_all()
    caplog.set_level(logging.INFO)
    for _ in range(2):  # verified, then recalled
        assert (await api.request("DELETE", "/persons/1", headers=sent)).status == 403
    entries = [record.msg for record in caplog.records if isinstance(record.msg, Entry)]
    assert [entry["client"] for entry in entries] == [stored.name] * 2


async def test_a_route_without_requirements_is_refused(
    aiohttp_client: AiohttpClient, secured: Settings, header: Header
) -> None:
    async def respond(_: web.Request) -> web.Response:
        return web.Response()

    app = create_app(secured, limits=LIMITS)
    app.router.add_get("/new", respond)
    client = await aiohttp_client(app)
    assert (await client.get("/new")).status == 403
    assert (await client.get("/new", headers=await header("write"))).status == 403

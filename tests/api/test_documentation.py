"""The OpenAPI document tells the truth, and Swagger UI shows it without any other host."""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from marshmallow import Schema, fields
from marshmallow.validate import OneOf
from openapi_schema_validator import OAS30Validator, oas30_format_checker
from openapi_spec_validator import validate

from registry import swagger_ui
from registry.jsonapi.errors import ApiError, MethodNotAllowed
from registry.openapi import describe
from registry.resource import Graph, Resource
from registry.resources import RESOURCES
from registry.views.base import DocumentView
from tests.conftest import Serve
from tests.support import MEDIA_TYPE, Api, says, to_many

DESCRIPTION = describe(Graph(RESOURCES))
BELOW = "/api/swagger/"


def resolve(part: Any) -> Any:
    """Return what a reference of the description leads to, or the part itself."""
    while "$ref" in part:
        found: Any = DESCRIPTION
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        part = found
    return part


def operations() -> Iterator[tuple[str, str, Any]]:
    for path, item in DESCRIPTION["paths"].items():
        for method in item.keys() - {"parameters"}:
            yield path, method, item[method]


def contents() -> Iterator[tuple[str, Any]]:
    """Yield each request and response document of each operation: where it is, and its content."""
    for path, method, operation in operations():
        if "requestBody" in operation:
            yield f"{method} {path}", operation["requestBody"]["content"]
        for status, response in operation["responses"].items():
            yield f"{method} {path} {status}", resolve(response)["content"]


def parameters() -> Iterator[Any]:
    for path, _, operation in operations():
        shared = DESCRIPTION["paths"][path].get("parameters", [])
        yield from map(resolve, [*shared, *operation["parameters"]])


def examples(content: Any) -> list[Any]:
    if "example" in content:
        return [content["example"]]
    return [example["value"] for example in content["examples"].values()]


def mistakes(schema: Any, document: Any) -> list[str]:
    """Return what a schema of the description says against a document."""
    whole = {**schema, "components": DESCRIPTION["components"]}
    validator = OAS30Validator(whole, format_checker=oas30_format_checker)
    return [error.message for error in validator.iter_errors(document)]


@says("9.openapi")
def test_the_description_is_valid_openapi_3_0_0() -> None:
    validate(DESCRIPTION)
    assert DESCRIPTION["openapi"] == "3.0.0"


class BareSchema(Schema):
    made = fields.Date(required=True)
    size = fields.Integer()
    kind = fields.String(validate=OneOf(["small", "large"]))
    notes = fields.List(fields.String(), allow_none=True)


def test_a_type_without_examples_and_relationships_is_described_too() -> None:
    description = describe(Graph([Resource("office", "offices", BareSchema)]))
    validate(description)
    post = description["paths"]["/offices"]["post"]
    assert post["summary"] == "Create an office"
    assert "OfficeInclude" not in str(post["parameters"])
    assert post["requestBody"]["content"][MEDIA_TYPE]["example"]["data"]["attributes"] == {
        "made": "1906-12-09",
        "size": 1,
        "kind": "small",
        "notes": [],
    }


@says("1.6")
def test_operations_are_grouped_by_type() -> None:
    assert [tag["name"] for tag in DESCRIPTION["tags"]] == ["Person", "Computer"]
    tags = {path.split("/")[1]: set[str]() for path in DESCRIPTION["paths"]}
    for path, _, operation in operations():
        tags[path.split("/")[1]].update(operation["tags"])
    assert tags == {"persons": {"Person"}, "computers": {"Computer"}}


def test_every_operation_says_what_it_is() -> None:
    assert all(one["summary"] and one["description"] for _, _, one in operations())
    names = [operation["operationId"] for _, _, operation in operations()]
    assert sorted(names) == [
        "create_computer",
        "create_person",
        "list_computers",
        "list_persons",
        "read_computer",
        "read_person",
        "update_computer",
        "update_person",
    ]


def test_every_parameter_has_a_schema_a_description_and_a_valid_example() -> None:
    for parameter in parameters():
        assert parameter["description"]
        assert mistakes(parameter["schema"], parameter["example"]) == []


def test_every_document_has_a_schema_and_valid_examples() -> None:
    for place, content in contents():
        assert content.keys() == {MEDIA_TYPE}, place
        found = examples(content[MEDIA_TYPE])
        assert found, place
        for example in found:
            assert mistakes(content[MEDIA_TYPE]["schema"], example) == [], place


def test_every_header_of_a_response_has_a_schema_and_an_example() -> None:
    for _, _, operation in operations():
        for response in map(resolve, operation["responses"].values()):
            assert "X-Request-ID" in response["headers"]
            for header in map(resolve, response["headers"].values()):
                assert mistakes(header["schema"], header["example"]) == []


def test_every_error_of_the_service_is_described() -> None:
    described = {int(status) for _, _, one in operations() for status in one["responses"]}
    # What is answered 405 is not an operation.
    known = {kind.status for kind in ApiError.__subclasses__()} - {MethodNotAllowed.status}
    assert described == known | {200, 201}


@says("4.1")
async def test_every_route_is_described_and_every_operation_exists(api: Api) -> None:
    routes = {
        (route.resource.canonical, method.lower())
        for route in api.client.app.router.routes()
        if route.resource is not None
        and isinstance(route.handler, type)
        and issubclass(route.handler, DocumentView)
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if hasattr(route.handler, method.lower())
    }
    assert routes == {(path, method) for path, method, _ in operations()}
    others = {
        route.resource.canonical
        for route in api.client.app.router.routes()
        if route.resource is not None and not route.resource.canonical.startswith("/api/swagger")
    }
    assert others == DESCRIPTION["paths"].keys()


NEW = {"type": "person", "attributes": {"first_name": "Ada", "last_name": "Lovelace"}}
REQUESTS: list[tuple[str, str, Any, dict[str, str], int]] = [
    ("GET", "/persons", None, {}, 200),
    ("GET", "/persons?include=computers&fields[person]=full_name,email", None, {}, 200),
    ("GET", "/persons?include=&fields[person]=", None, {}, 200),
    ("GET", "/persons?sort=email", None, {}, 400),
    ("GET", "/persons", None, {"Accept": f"{MEDIA_TYPE}; charset=utf-8"}, 406),
    ("GET", "/persons", None, {"Expect": "200-ok"}, 417),
    ("GET", "/persons/1?include=computers.owner", None, {}, 200),
    ("GET", "/persons/999", None, {}, 404),
    ("GET", "/computers?include=owner&fields[person]=full_name,email", None, {}, 200),
    ("GET", "/computers/1?include=owner", None, {}, 200),
    ("GET", "/computers/2?include=owner", None, {}, 200),
    ("POST", "/persons", {"data": NEW}, {}, 201),
    ("POST", "/persons?include=computers&fields[person]=full_name", {"data": NEW}, {}, 201),
    ("POST", "/persons", {"data": None}, {}, 400),
    ("POST", "/persons", {"data": {**NEW, "type": "computer"}}, {}, 409),
    ("POST", "/persons", b"x" * (2**20 + 1), {}, 413),
    ("POST", "/persons", {"data": NEW}, {"Content-Type": "application/json"}, 415),
    ("POST", "/persons", {"data": {"type": "person"}}, {}, 422),
    ("POST", "/computers", {"data": {"type": "computer", "attributes": {"serial": "S"}}}, {}, 201),
    ("PATCH", "/persons/1?include=computers", {"data": NEW}, {}, 200),
    (
        "PATCH",
        "/persons/1",
        {"data": {"type": "person", "relationships": {"computers": to_many("1", "2")}}},
        {},
        200,
    ),
    (
        "PATCH",
        "/persons/1",
        {"data": {"type": "person", "relationships": {"computers": to_many("999")}}},
        {},
        404,
    ),
    (
        "PATCH",
        "/computers/1",
        {"data": {"type": "computer", "relationships": {"owner": {"data": None}}}},
        {},
        200,
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "headers", "status"), REQUESTS)
async def test_what_the_service_answers_is_described(
    api: Api, method: str, path: str, body: Any, headers: dict[str, str], status: int
) -> None:
    grace = await api.person(email="grace@example.com")
    await api.computer(owner=grace)
    await api.computer()
    answer = await api.request(method, path, body, headers)
    assert answer.status == status
    template = re.sub(r"/\d+", "/{id}", path.partition("?")[0])
    operation = DESCRIPTION["paths"][template][method.lower()]
    response = resolve(operation["responses"][str(status)])
    assert mistakes(response["content"][MEDIA_TYPE]["schema"], answer.document) == []
    assert response["headers"].keys() <= answer.headers.keys()


def creating(**attributes: Any) -> Any:
    return {"data": {"type": "person", "attributes": attributes}}


def named(**more: Any) -> Any:
    return creating(first_name="Ada", last_name="Lovelace", **more)


def linking(value: Any, **more: Any) -> Any:
    return {"data": {**NEW, "relationships": {"computers": value}, **more}}


NO_ID: list[Any] = ["7", 7, None, {}]
NO_TYPE: list[Any] = ["computer", 1, None]
SENT: list[Any] = [
    *(named(email=email) for email in ("ada@example.com", None, "ada", 1, "a" * 250 + "@b.org")),
    *(named(**{name: "x"}) for name in ("full_name", "password", "serial", "type")),
    *(creating(first_name=name, last_name="L") for name in ("", "a" * 255, "a" * 256, None, 1)),
    creating(first_name="Ada"),
    creating(),
    *({"data": {**NEW, "id": one}} for one in NO_ID),
    *({"data": {**NEW, "type": one}} for one in NO_TYPE),
    {"data": {"type": "person"}},
    {"data": {**NEW, "attributes": []}},
    {"data": {**NEW, "meta": {}, "links": {}}, "jsonapi": {}},
    {"data": NEW["attributes"]},
    {"data": [NEW]},
    {"data": None},
    {},
    [],
    linking({"data": []}),
    linking({"data": [{"type": "computer", "id": "1"}], "meta": {}}),
    linking({"data": [{"type": "computer", "id": 1, "meta": {}}]}),
    linking({"data": [{"type": "computer", "id": "one"}]}),
    linking({"data": [{"type": "computer", "id": -1}]}),
    linking({"data": [{"type": "computer"}]}),
    linking({"data": [{"type": "person", "id": "1"}]}),
    linking({"data": {"type": "computer", "id": "1"}}),
    linking({"data": None}),
    linking({}),
    linking(None),
    {"data": {**NEW, "relationships": {"owner": {"data": None}}}},
    {"data": {**NEW, "relationships": []}},
]


@pytest.mark.parametrize(("method", "template"), [("post", "/persons"), ("patch", "/persons/{id}")])
async def test_the_service_takes_what_its_schema_allows_and_nothing_else(
    api: Api, method: str, template: str
) -> None:
    path = template.replace("{id}", await api.person())
    await api.computer()
    body = DESCRIPTION["paths"][template][method]["requestBody"]
    for document in SENT:
        answer = await api.request(method.upper(), path, document)
        wrong = mistakes(body["content"][MEDIA_TYPE]["schema"], document)
        assert (answer.status < 400) == (not wrong), (document, answer.document, wrong)


async def test_an_owner_is_taken_as_its_schema_allows(api: Api) -> None:
    await api.person()
    body = DESCRIPTION["paths"]["/computers"]["post"]["requestBody"]
    owners: list[Any] = [
        None,
        {"type": "person", "id": "1"},
        {"type": "person", "id": 1},
        [],
        {},
        "1",
    ]
    for owner in owners:
        data = {"type": "computer", "attributes": {"serial": "SN-1"}}
        document = {"data": {**data, "relationships": {"owner": {"data": owner}}}}
        answer = await api.request("POST", "/computers", document)
        wrong = mistakes(body["content"][MEDIA_TYPE]["schema"], document)
        assert (answer.status < 400) == (not wrong), (document, answer.document, wrong)


async def test_every_value_of_a_parameter_is_taken(api: Api) -> None:
    number = await api.person()
    for path, method, operation in operations():
        if method == "get" and path.startswith("/persons"):
            for parameter in map(resolve, operation["parameters"]):
                values = ",".join(parameter["schema"]["items"]["enum"])
                url = path.replace("{id}", number)
                assert (await api.get(f"{url}?{parameter['name']}={values}")).status == 200


async def test_two_services_in_one_process_are_both_described(serve: Serve) -> None:
    for api in (await serve(), await serve()):
        async with api.client.get(BELOW + "swagger.json") as response:
            assert await response.json() == DESCRIPTION


@says("1.6")
@pytest.mark.parametrize("name", ["swagger.json", "openapi.json"])
async def test_the_description_has_two_names(api: Api, name: str) -> None:
    async with api.client.get(BELOW + name) as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        assert await response.json() == DESCRIPTION


@pytest.mark.parametrize(
    "path", ["", "swagger.json", "openapi.json", "swagger_ui_static/swagger-ui.css"]
)
async def test_what_is_shown_can_be_asked_for_with_head(api: Api, path: str) -> None:
    async with api.client.get(BELOW + path) as got, api.client.head(BELOW + path) as asked:
        assert asked.status == got.status == 200
        for header in ("Content-Type", "Content-Length", "Content-Security-Policy"):
            assert asked.headers[header] == got.headers[header]


async def test_the_address_without_a_slash_leads_to_the_page(api: Api) -> None:
    async with api.client.get("/api/swagger") as response:
        assert (response.status, response.url.path) == (200, BELOW)
        assert response.content_type == "text/html"


@pytest.mark.parametrize("path", ["/api/swagger", BELOW, BELOW + "swagger.json"])
async def test_what_is_shown_cannot_be_changed(api: Api, path: str) -> None:
    answer = await api.request("OPTIONS", path)
    assert (answer.status, answer.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
    for method in ("POST", "PUT", "DELETE"):
        answer = await api.request(method, path)
        assert answer.status == 405
        assert set(re.split(", ?", answer.headers["Allow"])) == {"GET", "HEAD", "OPTIONS"}


@pytest.mark.parametrize(
    "path",
    [
        "nothing",
        "swagger_ui_static",
        "swagger_ui_static/",
        "swagger_ui_static/%00",
        "swagger_ui_static/%2e%2e/schema/schema.json",
        "swagger_ui_static/" + "a" * 300,
    ],
)
async def test_there_is_nothing_but_the_files_of_the_page(api: Api, path: str) -> None:
    assert (await api.get(BELOW + path)).status == 404


async def test_the_page_names_no_other_host(api: Api) -> None:
    async with api.client.get(BELOW) as response:
        page = await response.text()
    assert "//" not in re.sub(r"<!--.*?-->|// .*", "", page)
    assert '"validatorUrl": null' in page


@pytest.mark.parametrize(
    "path", ["", "swagger.json", "swagger_ui_static/swagger-ui.css", "nothing"]
)
async def test_a_policy_keeps_the_page_from_any_other_host(api: Api, path: str) -> None:
    async with api.client.get(BELOW + path) as response:
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        policy = response.headers["Content-Security-Policy"].split("; ")
        inline = re.findall(r"<(?:style|script)>(.*?)</", await response.text(), re.DOTALL)
    assert {"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    sources = [source for directive in policy for source in directive.split()[1:]]
    hashes = [b64encode(sha256(one.encode()).digest()).decode() for one in inline]
    assert len(hashes) == (2 if path == "" else 0)
    allowed = {"'none'", "'self'", "data:", *(f"'sha256-{one}'" for one in hashes)}
    assert set(sources) == allowed
    assert [one for one in policy if "data:" in one] == ["img-src 'self' data:"]


async def test_the_version_that_is_told_is_the_one_that_is_shown(api: Api) -> None:
    async with api.client.get(BELOW + "swagger_ui_static/swagger-ui-bundle.js") as response:
        assert f'"{swagger_ui.version()}"' in await response.text()


async def test_installed_files_are_shown_in_place_of_the_bundled_ones(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    bundled = swagger_ui.version()
    installed = tmp_path / "share/swagger-ui"
    installed.mkdir(parents=True)
    (installed / "VERSION").write_text("0.0.0\n")
    (installed / "swagger-ui.css").write_text("body {}")
    assert (bundled, swagger_ui.version()) == ("5.18.3", "0.0.0")
    api = await serve()
    async with api.client.get(BELOW + "swagger_ui_static/swagger-ui.css") as response:
        assert await response.text() == "body {}"
    # Files of two versions do not mix.
    assert (await api.get(BELOW + "swagger_ui_static/swagger-ui-bundle.js")).status == 404


def test_the_ui_leaves_the_application_of_the_service_alone() -> None:
    app = web.Application()
    swagger_ui.mount(app, {"openapi": "3.0.0"})
    assert not list(app)


@pytest.mark.parametrize("header", [{"Range": "bytes=9999999-"}, {"If-Match": '"other"'}])
async def test_the_files_of_the_page_are_sent_whole(api: Api, header: dict[str, str]) -> None:
    path = f"{BELOW}swagger_ui_static/swagger-ui.css"
    async with api.client.get(path, headers=header) as response:
        assert (response.status, response.content_type) == (200, "text/css")
        assert len(await response.read()) > 100_000

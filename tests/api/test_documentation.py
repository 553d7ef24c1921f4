"""The OpenAPI document matches the service, and Swagger UI is served without other hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from marshmallow import Schema
from openapi_schema_validator import OAS30Validator, oas30_format_checker
from openapi_spec_validator import validate

from registry.http.views.document_view import DocumentView
from registry.http.views.site import TrailingSlashView
from registry.jsonapi.content_negotiation import media_type
from registry.jsonapi.error_types import (
    MethodNotAllowed,
    error_types,
)
from registry.jsonapi.operation_documents import EXTENSION
from registry.jsonapi.request_documents import MAX_CONTAINERS
from registry.model.attributes import Date, Enumeration, Integer
from registry.model.authorship import AUTHORSHIP
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.openapi import swagger_ui
from registry.openapi.description import describe
from registry.resources import RESOURCES
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import MEDIA_TYPE, Api, to_many

DESCRIPTION = describe(Graph(RESOURCES), Settings(auth="on"))
"""Of a service that requires access tokens: it describes more than that of the other tests."""

OPEN_DESCRIPTION = describe(Graph(RESOURCES), Settings())

ATOMIC = media_type(EXTENSION)
UI_URL = "/api/swagger/"


def resolve(part: Any) -> Any:
    """Return the target of a reference in the description, or the part itself."""
    while "$ref" in part:
        target: Any = DESCRIPTION
        for step in part["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        part = target
    return part


def operations() -> Iterator[tuple[str, str, Any]]:
    """Yield path, method and description of each operation."""
    for path, item in DESCRIPTION["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def contents() -> Iterator[tuple[str, Any]]:
    """Yield the location and the `content` of the request and responses of each operation."""
    for path, method, operation in operations():
        if "requestBody" in operation:
            yield f"{method} {path}", operation["requestBody"]["content"]
        for status, response in operation["responses"].items():
            if "content" in resolve(response):
                yield f"{method} {path} {status}", resolve(response)["content"]


def parameters() -> Iterator[Any]:
    for _, _, operation in operations():
        yield from map(resolve, operation["parameters"])


PREFILLED = {"page[size]", "fields[person]", "fields[computer]"}
"""The parameters with an example, which Swagger UI sends unless the user clears them."""


def examples(content: Any) -> list[Any]:
    if "example" in content:
        return [content["example"]]
    return [example["value"] for example in content["examples"].values()]


def schema_errors(schema: Any, document: Any) -> list[str]:
    """Return the messages of the validation of a document against a schema of the description."""
    standalone = {**schema, "components": DESCRIPTION["components"]}
    validator = OAS30Validator(standalone, format_checker=oas30_format_checker)
    return [error.message for error in validator.iter_errors(document)]


def test_the_description_is_valid_openapi_3_0_0() -> None:
    validate(DESCRIPTION)
    assert DESCRIPTION["openapi"] == "3.0.0"


def taken_value_examples(unique: tuple[str, ...]) -> dict[str, Any]:
    """Return the example of a taken value of each operation that has one."""
    description = describe(Graph(RESOURCES).with_unique(unique), Settings())
    validate(description)
    names = {
        operation["operationId"]: operation["responses"].get("409", {}).get("$ref", "/")
        for item in description["paths"].values()
        for operation in item.values()
    }
    responses = {
        operation: description["components"]["responses"][reference.rpartition("/")[2]]
        for operation, reference in names.items()
        if reference != "/"
    }
    examples = {
        operation: response["content"][MEDIA_TYPE]["examples"].get("value_taken")
        for operation, response in responses.items()
    }
    return {name: one["value"]["errors"][0] for name, one in examples.items() if one}


def test_a_conflict_of_values_is_described_where_it_can_occur() -> None:
    assert taken_value_examples(()) == {}
    serial = taken_value_examples(("computer.serial",))
    assert serial.keys() == {"create_computer", "update_computer", "perform_operations"}
    both = taken_value_examples(("person.email", "computer.serial"))
    assert both.keys() == {*serial, "create_person", "update_person"}


def test_unique_attributes_are_described_as_such() -> None:
    graph = Graph(RESOURCES).with_unique(("person.email", "computer.serial"))
    schemas = describe(graph, Settings())["components"]["schemas"]
    for name, text in (
        ("Person", "No two persons have the same, whatever the case of letters."),
        ("Computer", "No two computers have the same."),
    ):
        for suffix in ("Create", "Update", "Resource"):
            assert str(schemas[f"{name}{suffix}"]).count(text) == 1
    assert "No two" not in str(DESCRIPTION)


def test_the_authorship_is_described_as_read_only_attributes_that_fields_can_name() -> None:
    components, names = DESCRIPTION["components"], AUTHORSHIP.keys()
    for title in ("Person", "Computer"):
        shown = components["schemas"][f"{title}Resource"]["properties"]
        attributes = shown["attributes"]["properties"]
        assert shown.keys() == {"type", "id", "attributes", "relationships", "links"}
        assert names <= attributes.keys()
        assert all(attributes[name]["readOnly"] for name in names)
        fields = components["parameters"][f"{title}Fields"]
        assert names <= {*fields["schema"]["items"]["enum"]}
        assert not names & {*fields["example"]}
        for kind in ("Create", "Update"):
            sent = components["schemas"][f"{title}{kind}"]["properties"]["data"]["properties"]
            assert not names & sent["attributes"]["properties"].keys()


class BareSchema(Schema):
    opened = Date(required=True)
    size = Integer()
    kind = Enumeration("small", "large")


def test_a_type_without_examples_and_relationships_is_described() -> None:
    description = describe(Graph([ResourceType("office", "offices", BareSchema)]), Settings())
    validate(description)
    post = description["paths"]["/offices"]["post"]
    assert post["summary"] == "Create an office"
    assert "Include" not in str(post["parameters"])
    assert post["requestBody"]["content"][MEDIA_TYPE]["example"]["data"]["attributes"] == {
        "opened": "2026-02-28",
        "size": 1,
        "kind": "small",
    }


def test_operations_are_grouped_by_type() -> None:
    assert [tag["name"] for tag in DESCRIPTION["tags"]] == ["Person", "Computer", "Operations"]
    tags = {path.split("/")[1]: set[str]() for path in DESCRIPTION["paths"]}
    for path, _, operation in operations():
        tags[path.split("/")[1]].update(operation["tags"])
    assert tags == {
        "persons": {"Person"},
        "computers": {"Computer"},
        "operations": {"Operations"},
    }


def test_every_operation_has_a_summary_a_description_and_a_unique_id() -> None:
    assert all(one["summary"] and one["description"] for _, _, one in operations())
    names = [operation["operationId"] for _, _, operation in operations()]
    assert sorted(names) == [
        "add_person_computers",
        "create_computer",
        "create_person",
        "delete_computer",
        "delete_person",
        "list_computers",
        "list_person_computers",
        "list_persons",
        "perform_operations",
        "read_computer",
        "read_computer_owner",
        "read_computer_owner_linkage",
        "read_person",
        "read_person_computers_linkage",
        "remove_person_computers",
        "replace_computer_owner",
        "replace_person_computers",
        "update_computer",
        "update_person",
    ]


def test_every_parameter_has_a_description_a_schema_and_only_valid_examples() -> None:
    for parameter in parameters():
        assert parameter["description"]
        if parameter["name"] != "id":
            assert ("example" in parameter) == (parameter["name"] in PREFILLED)
        if "example" in parameter:
            assert schema_errors(parameter["schema"], parameter["example"]) == []
        assert "default" not in parameter["schema"]


def test_an_id_is_prefilled_only_where_nothing_is_written() -> None:
    for path, method, operation in operations():
        if "{id}" in path:
            (id_,) = [one for one in map(resolve, operation["parameters"]) if one["in"] == "path"]
            assert ("example" in id_) == (method == "get"), (method, path)


def test_the_first_parameter_of_a_collection_limits_its_size() -> None:
    for path in ("/persons", "/computers", "/persons/{id}/computers"):
        parameters = map(resolve, DESCRIPTION["paths"][path]["get"]["parameters"])
        first = next(one for one in parameters if one["in"] == "query")
        assert (first["name"], first["example"]) == ("page[size]", 10)


def test_the_example_of_an_update_changes_one_attribute() -> None:
    content = DESCRIPTION["paths"]["/persons/{id}"]["patch"]["requestBody"]["content"]
    data = content[MEDIA_TYPE]["example"]["data"]
    assert data == {"type": "person", "id": "1", "attributes": {"first_name": "Grace"}}


def test_every_document_has_a_schema_and_valid_examples() -> None:
    for place, content in contents():
        extended = place in {"post /operations", "post /operations 200"}
        (media_type,) = content
        assert media_type == (ATOMIC if extended else MEDIA_TYPE), place
        documents = examples(content[media_type])
        assert documents, place
        for example in documents:
            assert schema_errors(content[media_type]["schema"], example) == [], place


def test_every_header_of_a_response_has_a_schema_and_an_example() -> None:
    for _, _, operation in operations():
        for response in map(resolve, operation["responses"].values()):
            assert {"X-Request-ID", "Vary"} <= response["headers"].keys()
            for header in map(resolve, response["headers"].values()):
                assert schema_errors(header["schema"], header["example"]) == []


def test_every_error_status_is_described() -> None:
    described = {int(status) for _, _, one in operations() for status in one["responses"]}
    # A request with another method does not have an operation.
    errors = {error.status for error in error_types()} - {MethodNotAllowed.status}
    assert described == errors | {200, 201, 204, 304}


def test_every_operation_names_its_scopes_and_the_errors_of_access() -> None:
    for _, method, operation in operations():
        assert operation["security"] == [{"accessToken": []}]
        (scopes,) = re.findall(r"Required scopes.*: (`.*`)\.$", operation["description"])
        action = "read" if method == "get" else "write"
        assert re.fullmatch(f"`[a-z]+:{action}`(, `[a-z]+:{action}`)*", scopes)
        refused = resolve(operation["responses"]["403"])["content"][MEDIA_TYPE]["examples"]
        assert refused.keys() == {"cross_site_request", "insufficient_scope"}
        codes = resolve(operation["responses"]["401"])["content"][MEDIA_TYPE]["examples"].keys()
        assert codes == {"authentication_required", "invalid_token"}
    assert DESCRIPTION["components"]["securitySchemes"]["accessToken"]["scheme"] == "bearer"


def test_without_authentication_no_operation_requires_a_token() -> None:
    assert "securitySchemes" not in OPEN_DESCRIPTION["components"]
    for item in OPEN_DESCRIPTION["paths"].values():
        assert not any("security" in operation for operation in item.values())


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
    paths = {
        route.resource.canonical
        for route in api.client.app.router.routes()
        if route.resource is not None
        and not route.resource.canonical.startswith("/api/swagger")
        and route.handler is not TrailingSlashView
    }
    # Those of operators and the root, which have no resources, are only mentioned.
    mentioned = {"/", "/health/live", "/health/ready", "/metrics"}
    assert paths == DESCRIPTION["paths"].keys() | mentioned
    assert all(f"`{path}`" in DESCRIPTION["info"]["description"] for path in mentioned)


NEW = {"type": "person", "attributes": {"first_name": "Ada", "last_name": "Lovelace"}}
NEW_COMPUTER = {"type": "computer", "attributes": {"serial": "S"}}
PERSON = {"type": "person", "id": "1"}
LINKAGE, OWNER = "/persons/1/relationships/computers", "/computers/1/relationships/owner"
STALE = {"If-Match": '"stale"'}
ANY = {"If-None-Match": "*"}
LARGEST = "page[number]=1&page[size]=1000"


def operating(*operations: Any) -> tuple[str, str, Any, dict[str, str]]:
    return "POST", "/operations", {"atomic:operations": list(operations)}, {"Content-Type": ATOMIC}


ADDED = {"op": "add", "data": NEW}
REQUESTS: list[tuple[str, str, Any, dict[str, str], int]] = [
    ("GET", "/persons", None, {}, 200),
    ("GET", "/persons?include=computers&fields[person]=full_name,email", None, {}, 200),
    ("GET", "/persons?include=&fields[person]=&sort=", None, {}, 200),
    ("GET", "/persons?fields[person]=created_at,created_by,updated_at,updated_by", None, {}, 200),
    ("GET", "/persons?page[number]=1&page[size]=1&sort=-email,id", None, {}, 200),
    ("GET", "/persons?page[size]=1&include=computers&page[computers][size]=1", None, {}, 200),
    ("GET", "/persons?page[number]=9&page[total]=false", None, {}, 200),
    ("GET", "/persons?page[size]=1", None, ANY, 304),
    ("GET", "/persons?sort=password", None, {}, 400),
    ("GET", "/persons?page[size]=1001", None, {}, 400),
    ("GET", "/persons?page[after]=x&page[before]=x", None, {}, 400),
    ("GET", "/persons", None, {"Accept": f"{MEDIA_TYPE}; charset=utf-8"}, 406),
    ("GET", "/persons", None, {"Expect": "200-ok"}, 417),
    ("GET", "/persons/1?include=computers.owner", None, {}, 200),
    ("GET", "/persons/1?include=computers&page[computers][size]=1", None, {}, 200),
    ("GET", "/persons/1?include=computers&page[computers][size]=1001", None, {}, 400),
    ("GET", "/persons/1", None, ANY, 304),
    ("GET", "/persons/999", None, {}, 404),
    ("GET", "/computers?include=owner&fields[person]=full_name,email", None, {}, 200),
    ("GET", f"/computers?sort=-owner.last_name&{LARGEST}", None, {}, 200),
    ("GET", "/computers/1?include=owner", None, {}, 200),
    ("GET", "/computers/2?include=owner", None, {}, 200),
    ("GET", "/persons/1/computers?include=owner", None, {}, 200),
    ("GET", "/persons/1/computers?filter[serial]=SN-1&page[number]=1", None, {}, 200),
    ("GET", "/persons/999/computers", None, {}, 404),
    ("GET", "/computers/1/owner?include=computers", None, {}, 200),
    ("GET", "/computers/2/owner", None, {}, 200),
    ("GET", "/computers/2/owner?include=", None, {}, 200),
    ("GET", "/computers/1/owner", None, ANY, 304),
    ("GET", LINKAGE, None, {}, 200),
    ("GET", f"{LINKAGE}?include=computers.owner&page[size]=1", None, {}, 200),
    ("GET", f"{LINKAGE}?page[number]=1", None, {}, 200),
    ("GET", LINKAGE, None, ANY, 304),
    ("GET", OWNER, None, {}, 200),
    ("GET", f"{OWNER}?include=owner.computers&page[owner.computers][size]=1", None, {}, 200),
    ("GET", "/computers/2/relationships/owner", None, {}, 200),
    ("POST", "/persons", {"data": NEW}, {}, 201),
    ("POST", "/persons?include=computers&fields[person]=full_name", {"data": NEW}, {}, 201),
    ("POST", "/persons", {"data": None}, {}, 400),
    ("POST", "/persons", {"data": {**NEW, "type": "computer"}}, {}, 409),
    ("POST", "/persons", b"x" * (2**20 + 1), {}, 413),
    ("POST", "/persons", {"data": NEW}, {"Content-Type": "application/json"}, 415),
    ("POST", "/persons", {"data": {"type": "person"}}, {}, 422),
    ("POST", "/persons", {"data": NEW}, {"Idempotency-Key": "a b"}, 400),
    ("POST", "/computers", {"data": NEW_COMPUTER}, {"Idempotency-Key": '"a b"'}, 201),
    ("PATCH", "/persons/1?include=computers", {"data": NEW}, {}, 200),
    ("PATCH", "/persons/1", {"data": NEW}, STALE, 412),
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
    ("DELETE", "/persons/1", None, {"If-Match": "*"}, 204),
    ("DELETE", "/persons/1", None, STALE, 412),
    ("DELETE", "/persons/1?unknown=1", None, {}, 400),
    ("DELETE", "/computers/2", None, {}, 204),
    ("DELETE", "/computers/999", None, {}, 404),
    ("PATCH", LINKAGE, to_many("2"), {}, 204),
    ("PATCH", LINKAGE, to_many("2"), STALE, 412),
    ("PATCH", LINKAGE, {"data": None}, {}, 400),
    ("POST", LINKAGE, to_many("2"), {}, 204),
    ("POST", LINKAGE, to_many("999"), {}, 404),
    ("POST", LINKAGE, to_many("1", type="person"), {}, 409),
    ("DELETE", LINKAGE, to_many("1", "999"), {}, 204),
    ("DELETE", LINKAGE, to_many("1"), {"Content-Type": "application/json"}, 415),
    ("PATCH", OWNER, {"data": None}, {}, 204),
    ("PATCH", OWNER, {"data": PERSON}, {}, 204),
    ("PATCH", OWNER, {"data": [PERSON]}, {}, 400),
    (*operating(ADDED, {"op": "remove", "ref": PERSON}), 200),
    (*operating(), 400),
    (*operating({"op": "remove", "href": "/persons/999"}), 404),
    (*operating({"op": "update", "href": "/computers/1", "data": NEW}), 409),
    (*operating(ADDED)[:3], {}, 415),
    (*operating({"op": "add", "data": {"type": "person"}}), 422),
]


def described(method: str, path: str) -> Any:
    """Return the description of the operation that a request performs."""
    template = re.sub(r"/\d+", "/{id}", path.partition("?")[0])
    return DESCRIPTION["paths"][template][method.lower()]


def test_the_requests_cover_every_operation() -> None:
    tried = {described(method, path)["operationId"] for method, path, *_ in REQUESTS}
    assert tried == {operation["operationId"] for _, _, operation in operations()}


@pytest.mark.parametrize(("method", "path", "body", "headers", "status"), REQUESTS)
async def test_every_response_conforms_to_the_description(
    api: Api, method: str, path: str, body: Any, headers: dict[str, str], status: int
) -> None:
    grace = await api.person(email="grace@example.com")
    await api.computer(owner=grace)
    await api.computer()
    data = json.dumps(body) if isinstance(body, dict) else BytesIO(body) if body else None
    sent = {"Content-Type": MEDIA_TYPE} | headers
    async with api.client.request(method, path, data=data, headers=sent) as response:
        text = await response.text()
    assert response.status == status, text
    documented = resolve(described(method, path)["responses"][str(status)])
    if text:
        content = documented["content"][response.headers["Content-Type"]]
        assert schema_errors(content["schema"], json.loads(text)) == []
    else:
        assert "content" not in documented
    headers, required = (
        documented["headers"],
        {name for name, header in documented["headers"].items() if resolve(header)["required"]},
    )
    assert required <= response.headers.keys()
    assert {name for name in HEADERS if name in response.headers} <= headers.keys()


HEADERS = {"ETag", "Location", "Retry-After", "Vary", "X-Request-ID"}
"""The response headers that clients use."""


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
    *(named(**{name: "x"}) for name in ("full_name", "updated_by", "password", "serial", "type")),
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


LINKED: list[Any] = [None, PERSON, {**PERSON, "id": 1}, [], {}, "1"]
OWNERS = [
    {"data": {**NEW_COMPUTER, "relationships": {"owner": {"data": owner}}}} for owner in LINKED
]

LINKAGES: list[Any] = [
    {"data": []},
    {"data": [{"type": "computer", "id": "1"}, {"type": "computer", "id": 1}], "meta": {}},
    {"data": [{"type": "computer", "id": "one"}]},
    {"data": [{"type": "computer", "id": None}]},
    {"data": [{"type": "computer"}]},
    {"data": [{"type": "person", "id": "1"}]},
    {"data": [1]},
    {"data": {"type": "computer", "id": "1"}},
    {"data": None},
    {},
    [],
]


COMPUTER = {"type": "computer", "id": "1"}
LOCAL = {"type": "computer", "lid": "new"}
RELATIONSHIP = {**PERSON, "relationship": "computers"}
OPERATIONS: list[Any] = [
    ADDED,
    {**ADDED, "href": "/persons", "meta": {}},
    {**ADDED, "href": "/persons/1"},
    {"op": "add", "data": {"type": "person"}},
    {"op": "add", "data": {"type": "office"}},
    {"op": "add"},
    {"op": "move", "data": NEW},
    {"op": "update", "data": {**NEW, "id": 1}},
    {"op": "update", "data": NEW},
    {"op": "update", "ref": PERSON, "data": NEW},
    {"op": "update", "ref": {"type": "person"}, "data": NEW},
    {"op": "update", "href": "/persons/1", "data": NEW},
    {"op": "update", "href": 1, "data": NEW},
    {"op": "update", "ref": LOCAL, "data": {"type": "computer", "attributes": {"serial": "2"}}},
    {"op": "remove", "ref": LOCAL},
    {"op": "remove", "ref": {**LOCAL, "type": "office"}},
    {"op": "remove", "ref": {"type": "computer", "id": None}},
    {"op": "remove"},
    {"op": "add", "ref": RELATIONSHIP, "data": [COMPUTER, LOCAL]},
    {"op": "update", "ref": RELATIONSHIP, "data": []},
    {"op": "remove", "ref": RELATIONSHIP, "data": [COMPUTER, {"type": "computer", "id": "one"}]},
    {"op": "add", "ref": RELATIONSHIP, "data": COMPUTER},
    {"op": "add", "ref": RELATIONSHIP, "data": [PERSON]},
    {"op": "update", "ref": {**COMPUTER, "relationship": "owner"}, "data": None},
    {"op": "update", "ref": {**LOCAL, "relationship": "owner"}, "data": PERSON},
    {"op": "add", "ref": {**COMPUTER, "relationship": "owner"}, "data": PERSON},
    {"op": "update", "href": OWNER, "data": PERSON},
    {"op": "update", "data": {**COMPUTER, "relationships": {"owner": {"data": PERSON}}}},
    None,
    {"op": "remove", "href": "/persons/1"},
]
EXCLUSIVE: list[Any] = [
    {**ADDED, "ref": PERSON},
    {"op": "remove", "ref": RELATIONSHIP},
    {"op": "remove", "ref": {**PERSON, "relationship": None}},
    {"op": "remove", "ref": {**PERSON, "relationship": "owner"}, "data": []},
]
"""Operations with members that exclude each other, which a schema cannot express without `not`."""


FIRST = {"op": "add", "data": LOCAL | NEW_COMPUTER}


@pytest.mark.parametrize(
    ("method", "path", "documents"),
    [
        *((method, path, SENT) for method, path in (("post", "/persons"), ("patch", "/persons/1"))),
        ("post", "/computers", OWNERS),
        *((method, LINKAGE, LINKAGES) for method in ("patch", "post", "delete")),
        ("post", "/operations", [{"atomic:operations": [FIRST, one]} for one in OPERATIONS]),
    ],
)
async def test_documents_are_accepted_if_and_only_if_their_schema_allows_them(
    api: Api, method: str, path: str, documents: list[Any]
) -> None:
    await api.person()
    await api.computer()
    body = described(method, path)["requestBody"]
    assert f"{MAX_CONTAINERS:,} objects and arrays" in body["description"]
    (content,) = body["content"].values()
    for document in documents:
        response = await api.request(method.upper(), path, document)
        violations = schema_errors(content["schema"], document)
        shown = document, response.document, violations
        assert (response.status < 400) == (not violations), shown


async def test_operations_with_members_that_exclude_each_other_are_rejected(api: Api) -> None:
    await api.person()
    for operation in EXCLUSIVE:
        assert (await api.operate(operation)).status in {400, 404}


def test_no_schema_makes_generators_drop_an_operation() -> None:
    text = json.dumps(DESCRIPTION)
    assert '"not":' not in text
    assert all("schema" in parameter for parameter in parameters())


async def test_every_documented_parameter_value_is_accepted(api: Api) -> None:
    await api.computer(owner=await api.person())
    for path, method, operation in operations():
        if method == "get":
            url = path.replace("{id}", "1")
            for parameter in map(resolve, operation["parameters"]):
                for query in [] if parameter["in"] != "query" else queries(parameter):
                    async with api.client.get(f"{url}?{query}") as response:
                        assert response.status == 200, (query, await response.text())


def queries(parameter: Any) -> Iterator[str]:
    """Yield queries with each value of a parameter, and with the parameters it requires."""
    name, schema = parameter["name"], parameter["schema"]
    required = {"page[total]": "&page[number]=1"}.get(name, "")
    if match := re.fullmatch(r"page\[(.+)\]\[size\]", name):
        required = f"&include={match[1]}"
    if name == "filter":
        assert schema == {"type": "string"}
        first, *others = [one["value"] for one in parameter["examples"].values()]
        assert first == ""  # prefilled
        assert others
        yield from (f"filter={quote(one)}" for one in others)
        condition = json.dumps({"name": "id", "op": "eq", "val": 1})
        yield f'filter=[{condition},{{"not":{condition}}}]'
    elif name == "sort":
        fields = re.findall(r"`([^`]+)`", parameter["description"].partition("Fields: ")[2])
        assert fields
        for value in [*fields, *(f"-{field}" for field in fields), ",".join(fields[1:3])]:
            assert re.search(schema["pattern"], value)
            yield f"{name}={value}"
    elif operators := re.findall(r"`([^`]+)`", parameter["description"].partition("operator: ")[2]):
        operand = sample(schema["items"])
        value = str(operand).lower()
        yield f"{name}={value}"
        for operator in operators:
            yield f"{name}[{operator}]={'true' if operator == 'null' else value}"
            operands = {"null": True, "in": [operand]}
            field = name.removeprefix("filter[").removesuffix("]")
            comparison = {"name": field, "op": operator, "val": operands.get(operator, operand)}
            yield f"filter={quote(json.dumps([comparison]))}"
    elif name not in {"page[after]", "page[before]"}:  # tests/api/test_paging.py tests cursors
        values = schema.get("items", {}).get("enum") or [sample(schema.get("items", schema))]
        yield f"{name}={','.join(map(str, values)).lower()}{required}"


def sample(schema: Any) -> Any:
    """Return a value that conforms to a schema."""
    schema = resolve(schema)
    if "anyOf" in schema:
        return sample(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: sample(one) for name, one in schema["properties"].items()}
    if schema["type"] == "array":
        return [sample(schema["items"])]
    if schema.get("format") == "date-time":
        return "2026-02-28T12:30:00Z"
    return {"integer": 1, "boolean": True, "string": "text"}[schema["type"]]


async def test_two_services_in_one_process_are_both_described(serve: Serve) -> None:
    for api in (await serve(), await serve()):
        async with api.client.get(UI_URL + "swagger.json") as response:
            assert await response.json() == OPEN_DESCRIPTION


@pytest.mark.parametrize("name", ["swagger.json", "openapi.json"])
async def test_the_description_has_two_urls(api: Api, name: str) -> None:
    async with api.client.get(UI_URL + name) as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        assert await response.json() == OPEN_DESCRIPTION


@pytest.mark.parametrize(
    "path", ["", "swagger.json", "openapi.json", "swagger_ui_static/swagger-ui.css"]
)
async def test_swagger_ui_supports_head(api: Api, path: str) -> None:
    async with api.client.get(UI_URL + path) as get, api.client.head(UI_URL + path) as head:
        assert head.status == get.status == 200
        for header in ("Content-Type", "Content-Length", "Content-Security-Policy"):
            assert head.headers[header] == get.headers[header]


async def test_the_url_without_a_trailing_slash_redirects_to_the_page(api: Api) -> None:
    async with api.client.get("/api/swagger") as response:
        assert (response.status, response.url.path) == (200, UI_URL)
        assert response.content_type == "text/html"


@pytest.mark.parametrize("path", ["/api/swagger", UI_URL, UI_URL + "swagger.json"])
async def test_swagger_ui_rejects_methods_that_write(api: Api, path: str) -> None:
    response = await api.request("OPTIONS", path)
    assert (response.status, response.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
    for method in ("POST", "PUT", "DELETE"):
        response = await api.request(method, path)
        assert response.status == 405
        assert set(re.split(", ?", response.headers["Allow"])) == {"GET", "HEAD", "OPTIONS"}


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
async def test_other_paths_below_the_page_are_not_found(api: Api, path: str) -> None:
    assert (await api.get(UI_URL + path)).status == 404


async def test_the_page_refers_to_no_other_host(api: Api) -> None:
    async with api.client.get(UI_URL) as response:
        page = await response.text()
    assert "//" not in re.sub(r"<!--.*?-->|// .*", "", page)
    assert "<title>Person and Computer Registry: API</title>" in page
    async with api.client.get(f"{UI_URL}swagger_ui_static/page.js") as response:
        assert "validatorUrl: null" in await response.text()


@pytest.mark.parametrize(
    "path", ["", "swagger.json", "swagger_ui_static/swagger-ui.css", "nothing"]
)
async def test_the_content_security_policy_allows_only_this_host(api: Api, path: str) -> None:
    async with api.client.get(UI_URL + path) as response:
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        policy = response.headers["Content-Security-Policy"].split("; ")
        text = await response.text()
    assert {"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    sources = {source for directive in policy for source in directive.split()[1:]}
    assert sources == {"'none'", "'self'", "data:"}
    assert [one for one in policy if "data:" in one] == ["img-src 'self' data:"]
    assert path or not re.search(r"<style|<script>| style=| on[a-z]+=", text)


async def test_the_reported_version_is_the_served_one(api: Api) -> None:
    async with api.client.get(UI_URL + "swagger_ui_static/swagger-ui-bundle.js") as response:
        assert f'"{swagger_ui.version()}"' in await response.text()


async def test_installed_files_replace_the_bundled_ones(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "swagger-ui"
    monkeypatch.setattr(swagger_ui, "SWAGGER_UI", installed)
    bundled = swagger_ui.version()
    installed.mkdir()
    (installed / "VERSION").write_text("0.0.0\n")
    (installed / "swagger-ui.css").write_text("body {}")
    assert (bundled, swagger_ui.version()) == ("5.18.3", "0.0.0")
    api = await serve()
    async with api.client.get(UI_URL + "swagger_ui_static/swagger-ui.css") as response:
        assert await response.text() == "body {}"
    # The files of two versions are not mixed.
    assert (await api.get(UI_URL + "swagger_ui_static/swagger-ui-bundle.js")).status == 404


def test_mounting_the_ui_stores_nothing_on_the_application() -> None:
    app = web.Application()
    swagger_ui.mount(app, {"openapi": "3.0.0"})
    assert not list(app)


@pytest.mark.parametrize("header", [{"Range": "bytes=9999999-"}, {"If-Match": '"other"'}])
async def test_static_files_ignore_range_and_if_match(api: Api, header: dict[str, str]) -> None:
    path = f"{UI_URL}swagger_ui_static/swagger-ui.css"
    async with api.client.get(path, headers=header) as response:
        assert (response.status, response.content_type) == (200, "text/css")
        assert len(await response.read()) > 100_000

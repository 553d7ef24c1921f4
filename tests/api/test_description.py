"""The OpenAPI document: it is valid and complete, and the service does what it says."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from marshmallow import Schema
from openapi_schema_validator import OAS30Validator, oas30_format_checker
from openapi_spec_validator import validate

from registry.jsonapi.error_types import MethodNotAllowed, error_types
from registry.jsonapi.parameter_schemas import Variant, conditions
from registry.jsonapi.query import QueryScope
from registry.jsonapi.query_parameters import QUERY_PARAMETERS, AppliesTo, parse_query
from registry.jsonapi.request_documents import MAX_CONTAINERS
from registry.model.fields import Date, Enumeration, Integer
from registry.model.graph import Graph
from registry.model.implicit_attributes import AUTHORSHIP
from registry.model.resource_type import Link, ResourceType
from registry.openapi.description import describe
from registry.protocol import CSV_TYPE, EVENT_STREAM, NDJSON_TYPE
from registry.resources import RESOURCES
from registry.settings import Settings
from tests.support import (
    ATOMIC,
    COMPUTER,
    MEDIA_TYPE,
    OPERATIONS,
    PERSON,
    Api,
    add,
    declared_routes,
    identifier,
    new,
    to_many,
    update,
)

DESCRIPTION = describe(Graph(RESOURCES), Settings(auth="on"))
OPEN_DESCRIPTION = describe(Graph(RESOURCES), Settings())
"""Of a service that requires access tokens, and of one that does not."""


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


def parameters() -> Iterator[Any]:
    for _, _, operation in operations():
        yield from map(resolve, operation["parameters"])


def schema_errors(schema: Any, document: Any) -> list[str]:
    """Return the messages of the validation of a document against a schema of the description."""
    standalone = {**schema, "components": DESCRIPTION["components"]}
    validator = OAS30Validator(standalone, format_checker=oas30_format_checker)
    return [error.message for error in validator.iter_errors(document)]


def contents() -> Iterator[tuple[str, Any]]:
    """Yield the location and the `content` of the request and responses of each operation."""
    for path, method, operation in operations():
        if "requestBody" in operation:
            yield f"{method} {path}", operation["requestBody"]["content"]
        for status, response in operation["responses"].items():
            if "content" in resolve(response):
                yield f"{method} {path} {status}", resolve(response)["content"]


def codes_of(response: Any) -> list[str]:
    """Return the codes of the errors that the description of a response lists."""
    return re.findall(r"^- `(\w+)`: ", response["description"], re.MULTILINE)


PREFILLED = {"page[size]", "fields[person]", "fields[computer]", "filter[type]"}
"""The parameters with an example, which Swagger UI sends unless the user clears them."""


def test_the_description_is_valid_openapi_3_0_0() -> None:
    validate(DESCRIPTION)
    assert DESCRIPTION["openapi"] == "3.0.0"
    # Generators of clients drop operations with these.
    assert '"not":' not in json.dumps(DESCRIPTION)
    assert all("schema" in parameter for parameter in parameters())


def test_unique_attributes_and_their_conflicts_are_described() -> None:
    graph = Graph(RESOURCES).with_unique(("person.email", "computer.serial"))
    description = describe(graph, Settings())
    validate(description)
    for described, codes in (
        (OPEN_DESCRIPTION, ["type_conflict"]),
        (description, ["type_conflict", "value_taken"]),
    ):
        assert codes_of(described["components"]["responses"]["Error409"]) == codes
    schemas = description["components"]["schemas"]
    for name, text in (
        ("Person", "No two persons have the same, whatever the case of letters."),
        ("Computer", "No two computers have the same."),
    ):
        for suffix in ("Create", "Update", "Resource"):
            assert str(schemas[f"{name}{suffix}"]).count(text) == 1
    assert "No two" not in str(DESCRIPTION)


def test_authorship_is_described_as_read_only() -> None:
    components, names = DESCRIPTION["components"], set(AUTHORSHIP)
    for title in ("Person", "Computer"):
        shown = components["schemas"][f"{title}Resource"]["properties"]
        attributes = shown["attributes"]["properties"]
        assert shown.keys() == {"type", "id", "attributes", "relationships", "links"}
        assert names <= attributes.keys()
        assert all(attributes[name]["readOnly"] for name in names)
        (fields,) = (
            parameter
            for parameter in map(resolve, DESCRIPTION["paths"]["/persons"]["get"]["parameters"])
            if parameter["name"] == f"fields[{title.lower()}]"
        )
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
    assert post["summary"] == "Create office"
    assert "include" not in str(post["parameters"])
    assert post["requestBody"]["content"][MEDIA_TYPE]["example"]["data"]["attributes"] == {
        "opened": "2026-02-28",
        "size": 1,
        "kind": "small",
    }


def test_operations_are_grouped_by_type() -> None:
    names = [tag["name"] for tag in DESCRIPTION["tags"]]
    assert names == ["Person", "Computer", "Assignment", "Operations", "Changes"]
    tags = {(path.split("/")[1], *operation["tags"]) for path, _, operation in operations()}
    collections = ("persons", "computers", "assignments", "operations", "changes")
    assert tags == {*zip(collections, names, strict=True)}


def test_every_operation_has_a_summary_a_description_and_a_unique_id() -> None:
    assert all(
        operation["summary"] and operation["description"] for _, _, operation in operations()
    )
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)
    # The names of functions in clients that are generated.
    assert {"create_person", "read_computer_owner_linkage", "remove_person_computers"} <= {*names}


def test_every_parameter_has_a_description_a_schema_and_only_valid_examples() -> None:
    for parameter in parameters():
        assert parameter["description"]
        if parameter["name"] != "id":
            assert ("example" in parameter) == (parameter["name"] in PREFILLED)
        if "example" in parameter:
            assert schema_errors(parameter["schema"], parameter["example"]) == []
        assert "default" not in parameter["schema"]


def test_unedited_examples_are_harmless() -> None:
    for path, method, operation in operations():
        described = list(map(resolve, operation["parameters"]))
        if "{id}" in path:
            (id_,) = [parameter for parameter in described if parameter["in"] == "path"]
            assert ("example" in id_) == (method == "get"), (method, path)
        if operation["operationId"].startswith("list_"):
            first = next(parameter for parameter in described if parameter["in"] == "query")
            assert (first["name"], first["example"]) == ("page[size]", 10)
    content = DESCRIPTION["paths"]["/persons/{id}"]["patch"]["requestBody"]["content"]
    data = content[MEDIA_TYPE]["example"]["data"]
    assert data == {"type": "person", "id": "1", "attributes": {"first_name": "Grace"}}


def test_every_document_has_a_schema() -> None:
    for place, content in contents():
        extended = place in {"post /operations", "post /operations 200"}
        further = set[str]()
        if place == "get /changes 200":
            further = {EVENT_STREAM}
        elif re.fullmatch(r"get /\w+s(/\{id\}/\w+s)? 200|post /\w+s", place):
            further = set() if extended else {CSV_TYPE}
        elif re.fullmatch(r"post /\w+s 200", place) and not extended:
            further = {NDJSON_TYPE}
        assert content.keys() == {ATOMIC if extended else MEDIA_TYPE} | further, place
        assert all("schema" in described for described in content.values())


def test_every_request_has_a_valid_example() -> None:
    for _, _, operation in operations():
        for described in operation.get("requestBody", {}).get("content", {}).values():
            assert schema_errors(described["schema"], described["example"]) == []


def test_every_response_has_the_common_headers() -> None:
    for _, _, operation in operations():
        for response in map(resolve, operation["responses"].values()):
            assert {"X-Request-ID", "Vary"} <= response["headers"].keys()
            for header in map(resolve, response["headers"].values()):
                assert "schema" in header


def test_every_error_status_is_described() -> None:
    described = {
        int(status) for _, _, operation in operations() for status in operation["responses"]
    }
    # A request with another method does not have an operation.
    errors = {error.status for error in error_types()} - {MethodNotAllowed.status}
    assert described == errors | {200, 201, 204, 304}


def test_every_operation_names_its_scopes_and_the_errors_of_access() -> None:
    for _, method, operation in operations():
        assert operation["security"] == [{"accessToken": []}]
        (scopes,) = re.findall(r"Required scopes.*: (`.*`)\.$", operation["description"])
        action = "read" if method == "get" else "write"
        assert re.fullmatch(f"`[a-z]+:{action}`(, `[a-z]+:{action}`)*", scopes)
        for status, codes in (
            ("403", ["insufficient_scope", "cross_site_request"]),
            ("401", ["authentication_required", "invalid_token"]),
        ):
            assert codes_of(resolve(operation["responses"][status])) == codes
    assert DESCRIPTION["components"]["securitySchemes"]["accessToken"]["scheme"] == "bearer"
    assert "securitySchemes" not in OPEN_DESCRIPTION["components"]
    for description, is_asked in ((DESCRIPTION, True), (OPEN_DESCRIPTION, False)):
        responses = description["components"]["responses"]
        for status in ("400", "403"):
            assert ("WWW-Authenticate" in responses[f"Error{status}"]["headers"]) == is_asked
    for item in OPEN_DESCRIPTION["paths"].values():
        assert not any("security" in operation for operation in item.values())


async def test_every_route_is_described_and_every_operation_exists(api: Api) -> None:
    declared = declared_routes(api.app)
    routes = {
        (route.path, method.lower())
        for route in declared
        if route.path in DESCRIPTION["paths"]
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if method in route.methods
    }
    assert routes == {(path, method) for path, method, _ in operations()}
    paths = {route.path for route in declared}
    # Those of operators and the root, which have no resources, are only mentioned.
    mentioned = {"/", "/health/live", "/health/ready", "/metrics"}
    assert paths == DESCRIPTION["paths"].keys() | mentioned
    assert all(f"`{path}`" in DESCRIPTION["info"]["description"] for path in mentioned)


def test_operations_share_only_equal_parameters() -> None:
    graph, known = Graph(RESOURCES), dict[tuple[str, str], Variant]()
    for resource_type in graph.values():
        scope = QueryScope(resource_type, graph, page_size=10)
        linkages = [
            replace(scope, resource=graph[link.target], linkage=(resource_type, link))
            for link in resource_type.relationships.values()
        ]
        for row in QUERY_PARAMETERS:
            for described in (scope, *linkages):
                argument = graph if row.applies_to is AppliesTo.FEED else described
                for variant in row.describe(argument) if row.describe else ():
                    assert known.setdefault((variant.owner, variant.name), variant) == variant


def test_the_examples_of_filters_are_valid() -> None:
    graph = Graph(RESOURCES, revision_days=1)
    for resource_type in graph.values():
        scope = QueryScope(resource_type, graph, page_size=10, many=True)
        (described,) = conditions(scope)
        _, *filled = described.more["examples"].values()  # the first is not sent
        for example in filled:
            assert parse_query([("filter", example["value"])], scope).filters


def test_the_description_of_a_type_with_many_links_is_bounded() -> None:
    person, *others = RESOURCES
    links = tuple(Link(f"link{n}", "person", f"key{n}", f"inverse{n}") for n in range(40))
    description = describe(Graph([replace(person, links=links), *others]), Settings())
    shared = description["components"]["parameters"]
    # Of one step: there are 82 relationships, and half a million paths of three steps.
    names = shared["person-include"]["schema"]["items"]["enum"]
    assert (len(names), {name.count(".") for name in names}) == (82, {0})
    refs = [ref["$ref"] for ref in description["paths"]["/persons"]["get"]["parameters"]]
    assert sum("/person-filter." in ref for ref in refs) == 101  # with that of the search


def test_parameters_have_names_that_the_specification_allows() -> None:
    names = {
        parameter["name"].partition("[")[0]
        for parameter in parameters()
        if parameter["in"] == "query"
    }
    # One of the service's own has a character other than a-z.
    assert names == {"include", "fields", "sort", "filter", "page", "rows", "withCount"}


LINKAGE, OWNER = "/persons/1/relationships/computers", "/computers/1/relationships/owner"

ANY = {"If-None-Match": "*"}

REQUESTS: list[tuple[str, str, Any, dict[str, str], int]] = [
    ("GET", "/persons?fields[person]=created_at,created_by,updated_at,updated_by", None, {}, 200),
    ("GET", "/persons?page[size]=1&include=computers&page[computers][size]=1", None, {}, 200),
    ("GET", "/persons?page[size]=1", None, ANY, 304),
    ("GET", f"{LINKAGE}?include=computers.owner&page[size]=1", None, {}, 200),
    ("GET", f"{OWNER}?include=owner.computers&page[owner.computers][size]=1", None, {}, 200),
    ("GET", "/computers/2/relationships/owner", None, ANY, 304),
    ("POST", "/persons", b"x" * (2**20 + 1), {}, 413),
    ("PATCH", "/persons/1", {"data": new("person", {"computers": to_many("999")})}, {}, 404),
    ("PATCH", LINKAGE, to_many("2"), {"If-Match": '"stale"'}, 412),
    ("POST", LINKAGE, to_many("1", type="person"), {}, 409),
    ("DELETE", LINKAGE, to_many("1"), {"Content-Type": "application/json"}, 415),
    ("PATCH", "/persons/1", {"data": new("person")}, {"Content-Encoding": "compress"}, 415),
    ("POST", "/operations", {OPERATIONS: [add({"type": "person"})]}, {}, 422),
]
"""What neither the examples of the description nor Schemathesis have."""


async def check_response(
    api: Api, operation: Any, method: str, path: str, body: Any, headers: Mapping[str, str]
) -> int:
    """Check that the response to a request is as described, and return its status."""
    response = await api.request(method, path, body, headers)
    described = resolve(operation["responses"][str(response.status)])
    if response.document is None:
        assert "content" not in described
    else:
        schema = described["content"][response.headers["Content-Type"]]["schema"]
        assert schema_errors(schema, response.document) == []
    required = {
        name for name, header in described["headers"].items() if resolve(header)["required"]
    }
    assert required <= response.headers.keys()
    clients_use = {"ETag", "Location", "Retry-After", "Vary", "X-Request-ID", "Accept-Encoding"}
    assert clients_use & response.headers.keys() <= described["headers"].keys()
    return response.status


async def test_responses_are_as_described(api: Api) -> None:
    for method, path, body, headers, status in REQUESTS:
        await api.set_computers(await api.person(), await api.computer(), await api.computer())
        template = re.sub(r"/\d+", "/{id}", path.partition("?")[0])
        operation = DESCRIPTION["paths"][template][method.lower()]
        assert await check_response(api, operation, method, path, body, headers) == status, path


async def test_the_examples_of_all_operations_are_accepted(api: Api) -> None:
    await api.computer(owner=await api.person())
    await api.computer()
    # Linkage is removed before resources.
    order = sorted(operations(), key=lambda pair: (pair[1] == "delete", -len(pair[0])))
    for path, method, operation in order:
        body = None
        if "requestBody" in operation:
            content = next(iter(operation["requestBody"]["content"].values()))
            body = content["example"]
        url = path.replace("{id}", "1")
        assert await check_response(api, operation, method.upper(), url, body, {}) < 300, url


LOCAL = {"type": "computer", "lid": "new"}
GRACE, FIRST = identifier("person", "1"), identifier("computer", "1")
COMPUTERS = {**GRACE, "relationship": "computers"}

ATOMIC_OPERATIONS: list[Any] = [
    add(PERSON),
    *({**add(PERSON), **more} for more in ({"href": "/persons"}, {"href": "/persons/1"})),
    *[add({"type": "person"}), add({"type": "office"}), {"op": "add"}],
    {"op": "move", "data": PERSON},
    *[update(PERSON), update(PERSON, id="1"), {"op": "update", "data": {**PERSON, "id": 1}}],
    *({"op": "update", "ref": ref, "data": PERSON} for ref in (GRACE, {"type": "person"})),
    *({"op": "update", "href": href, "data": PERSON} for href in ("/persons/1", 1)),
    {"op": "update", "ref": LOCAL, "data": COMPUTER},
    *({"op": "remove", "ref": ref} for ref in (LOCAL, {**LOCAL, "type": "office"})),
    *[{"op": "remove", "ref": identifier("computer", None)}, {"op": "remove"}, None],
    {"op": "add", "ref": COMPUTERS, "data": [FIRST, LOCAL]},
    {"op": "update", "ref": COMPUTERS, "data": []},
    {"op": "remove", "ref": COMPUTERS, "data": [FIRST, identifier("computer", "one")]},
    *({"op": "add", "ref": COMPUTERS, "data": data} for data in (FIRST, [GRACE])),
    {"op": "update", "ref": {**FIRST, "relationship": "owner"}, "data": None},
    {"op": "update", "ref": {**LOCAL, "relationship": "owner"}, "data": GRACE},
    {"op": "add", "ref": {**FIRST, "relationship": "owner"}, "data": GRACE},
    {"op": "update", "href": OWNER, "data": GRACE},
    update(new("computer", {"owner": {"data": GRACE}}), id="1"),
    {"op": "remove", "href": "/persons/1"},
]


async def test_operations_are_accepted_iff_their_schema_allows_them(api: Api) -> None:
    await api.person()
    await api.computer()
    body = DESCRIPTION["paths"]["/operations"]["post"]["requestBody"]
    assert f"{MAX_CONTAINERS:,} objects and arrays" in body["description"]
    first = add(COMPUTER, "new")
    for operation in ATOMIC_OPERATIONS:
        response = await api.operate(first, operation)
        violations = schema_errors(
            body["content"][ATOMIC]["schema"], {OPERATIONS: [first, operation]}
        )
        assert (response.status < 400) == (not violations), (operation, response.document)


@pytest.mark.slow
async def test_documented_orders_operators_and_filters_are_accepted(api: Api) -> None:
    """What no schema describes, so that Schemathesis does not require it."""
    await api.computer(owner=await api.person())
    for path, _, operation in operations():
        for name, value in pairs(map(resolve, operation["parameters"])):
            url = f"{path.replace('{id}', '1')}?{urlencode({name: value})}"
            assert (await api.get(url)).status == 200, url


def pairs(described: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield names of parameters with values that their descriptions and examples name."""
    for parameter in described:
        name, text, schema = parameter["name"], parameter["description"], parameter["schema"]
        if name == "filter":
            _, *filled = parameter["examples"].values()  # the first is not sent
            yield from ((name, example["value"]) for example in filled)
        if name == "sort":
            fields = re.findall(r"`([^`]+)`", text.partition("Fields: ")[2])
            for value in (*fields, *(f"-{field}" for field in fields), ",".join(fields[:2])):
                assert re.search(schema["pattern"], value)
                yield name, value
        for operator in re.findall(r"`([^`]+)`", text.partition("operator: ")[2]):
            yield f"{name}[{operator}]", "true" if operator == "null" else sample(schema["items"])


def sample(schema: Any) -> str:
    """Return the text of a scalar that conforms to a schema."""
    schema = resolve(schema)
    if "anyOf" in schema:
        return sample(schema["anyOf"][0])
    if schema.get("format") == "date-time":
        return "2026-02-28T12:30:00Z"
    return "1" if schema["type"] == "integer" else "text"

"""The OpenAPI document: it is valid and complete, and its examples are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from marshmallow import Schema
from openapi_spec_validator import validate

from registry.http.views.document_view import ENDPOINTS
from registry.http.views.site import TrailingSlashView
from registry.jsonapi.error_types import MethodNotAllowed, error_types
from registry.model.attributes import Date, Enumeration, Integer
from registry.model.authorship import AUTHORSHIP
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.openapi.description import describe
from registry.protocol import CSV_TYPE, EVENT_STREAM
from registry.resources import RESOURCES
from registry.settings import Settings
from tests.api.described import DESCRIPTION, operations, parameters, resolve, schema_errors
from tests.support import ATOMIC, MEDIA_TYPE, Api

OPEN_DESCRIPTION = describe(Graph(RESOURCES), Settings())


def contents() -> Iterator[tuple[str, Any]]:
    """Yield the location and the `content` of the request and responses of each operation."""
    for path, method, operation in operations():
        if "requestBody" in operation:
            yield f"{method} {path}", operation["requestBody"]["content"]
        for status, response in operation["responses"].items():
            if "content" in resolve(response):
                yield f"{method} {path} {status}", resolve(response)["content"]


PREFILLED = {"page[size]", "fields[person]", "fields[computer]", "filter[type]"}
"""The parameters with an example, which Swagger UI sends unless the user clears them."""


def examples(content: Any) -> list[Any]:
    if "example" in content:
        return [content["example"]]
    return [example["value"] for example in content["examples"].values()]


def test_the_description_is_valid_openapi_3_0_0() -> None:
    validate(DESCRIPTION)
    assert DESCRIPTION["openapi"] == "3.0.0"


def conflicts(unique: tuple[str, ...]) -> set[str]:
    """Return the codes of the examples of conflicts."""
    description = describe(Graph(RESOURCES).with_unique(unique), Settings())
    validate(description)
    conflict = description["components"]["responses"]["Error409"]
    return {*conflict["content"][MEDIA_TYPE]["examples"]}


def test_a_conflict_of_values_is_described_if_an_attribute_is_unique() -> None:
    assert conflicts(()) == {"type_conflict"}
    assert conflicts(("computer.serial",)) == {"type_conflict", "value_taken"}


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
        (fields,) = (
            one
            for one in DESCRIPTION["paths"]["/persons"]["get"]["parameters"]
            if one["name"] == f"fields[{title.lower()}]"
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
    assert "Include" not in str(post["parameters"])
    assert post["requestBody"]["content"][MEDIA_TYPE]["example"]["data"]["attributes"] == {
        "opened": "2026-02-28",
        "size": 1,
        "kind": "small",
    }


def test_operations_are_grouped_by_type() -> None:
    names = [tag["name"] for tag in DESCRIPTION["tags"]]
    assert names == ["Person", "Computer", "Assignment", "Operations", "Changes"]
    tags = {path.split("/")[1]: set[str]() for path in DESCRIPTION["paths"]}
    for path, _, operation in operations():
        tags[path.split("/")[1]].update(operation["tags"])
    assert tags == {
        "persons": {"Person"},
        "computers": {"Computer"},
        "assignments": {"Assignment"},
        "operations": {"Operations"},
        "changes": {"Changes"},
    }


def test_every_operation_has_a_summary_a_description_and_a_unique_id() -> None:
    assert all(one["summary"] and one["description"] for _, _, one in operations())
    names = [operation["operationId"] for _, _, operation in operations()]
    assert sorted(names) == [
        *("add_person_computers", "create_computer", "create_person"),
        *("delete_computer", "delete_person", "follow_changes"),
        *("list_assignments", "list_computer_assignments", "list_computers"),
        *("list_person_assignments", "list_person_computers", "list_persons"),
        *("perform_operations", "read_assignment"),
        *("read_assignment_computer", "read_assignment_computer_linkage"),
        *("read_assignment_owner", "read_assignment_owner_linkage", "read_computer"),
        *("read_computer_assignments_linkage", "read_computer_owner"),
        *("read_computer_owner_linkage", "read_person", "read_person_assignments_linkage"),
        *("read_person_computers_linkage", "remove_person_computers"),
        *("replace_computer_owner", "replace_person_computers"),
        *("update_computer", "update_person"),
    ]


def test_every_parameter_has_a_description_a_schema_and_only_valid_examples() -> None:
    for parameter in parameters():
        assert parameter["description"]
        if parameter["name"] != "id":
            assert ("example" in parameter) == (parameter["name"] in PREFILLED)
        if "example" in parameter:
            assert schema_errors(parameter["schema"], parameter["example"]) == []
        assert "default" not in parameter["schema"]


def test_an_unedited_example_reads_little_and_changes_one_attribute_of_no_resource() -> None:
    for path, method, operation in operations():
        described = list(map(resolve, operation["parameters"]))
        if "{id}" in path:
            (id_,) = [one for one in described if one["in"] == "path"]
            assert ("example" in id_) == (method == "get"), (method, path)
        if operation["operationId"].startswith("list_"):
            first = next(one for one in described if one["in"] == "query")
            assert (first["name"], first["example"]) == ("page[size]", 10)
    content = DESCRIPTION["paths"]["/persons/{id}"]["patch"]["requestBody"]["content"]
    data = content[MEDIA_TYPE]["example"]["data"]
    assert data == {"type": "person", "id": "1", "attributes": {"first_name": "Grace"}}


def test_every_document_has_a_schema_and_valid_examples() -> None:
    for place, content in contents():
        extended = place in {"post /operations", "post /operations 200"}
        further = set[str]()
        if place == "get /changes 200":
            further = {EVENT_STREAM}
        elif re.fullmatch(r"get /\w+s(/\{id\}/\w+s)? 200", place):
            further = {CSV_TYPE}
        assert content.keys() == {ATOMIC if extended else MEDIA_TYPE} | further, place
        for described in content.values():
            documents = examples(described)
            assert documents, place
            for example in documents:
                assert schema_errors(described["schema"], example) == [], place


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
        (endpoint.path, method.lower())
        for endpoint in api.app[ENDPOINTS].values()
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if method in endpoint.handlers
    }
    assert routes == {(path, method) for path, method, _ in operations()}
    paths = {
        route.resource.canonical
        for route in api.app.router.routes()
        if route.resource is not None
        and not route.resource.canonical.startswith(("/api/page", "/api/swagger"))
        and route.handler is not TrailingSlashView
    }
    # Those of operators and the root, which have no resources, are only mentioned.
    mentioned = {"/", "/health/live", "/health/ready", "/metrics"}
    assert paths == DESCRIPTION["paths"].keys() | mentioned
    assert all(f"`{path}`" in DESCRIPTION["info"]["description"] for path in mentioned)


def test_no_schema_makes_generators_drop_an_operation() -> None:
    text = json.dumps(DESCRIPTION)
    assert '"not":' not in text
    assert all("schema" in parameter for parameter in parameters())

"""Requests are accepted, and responses formed, as the description says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from urllib.parse import quote

import pytest

from registry.jsonapi.request_documents import MAX_CONTAINERS
from tests.api.described import DESCRIPTION, operations, resolve, schema_errors
from tests.support import ATOMIC, MEDIA_TYPE, Api, to_many

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
    ("GET", "/persons?include=&fields[person]=&sort=", None, {}, 200),
    ("GET", "/persons?fields[person]=created_at,created_by,updated_at,updated_by", None, {}, 200),
    ("GET", "/persons?page[size]=1&include=computers&page[computers][size]=1", None, {}, 200),
    ("GET", "/persons?page[size]=1", None, ANY, 304),
    ("GET", "/persons?sort=password", None, {}, 400),
    ("GET", "/persons?page[size]=1001", None, {}, 400),
    ("GET", "/persons", None, {"Accept": f"{MEDIA_TYPE}; charset=utf-8"}, 406),
    ("GET", "/persons", None, {"Expect": "200-ok"}, 417),
    ("GET", "/persons/1?include=computers.owner", None, {}, 200),
    ("GET", "/persons/1", None, ANY, 304),
    ("GET", "/persons/999", None, {}, 404),
    ("GET", f"/computers?sort=-owner.last_name&{LARGEST}", None, {}, 200),
    ("GET", "/computers/2?include=owner", None, {}, 200),
    ("GET", "/persons/1/computers?filter[serial]=SN-1&page[number]=1", None, {}, 200),
    ("GET", "/persons/999/computers", None, {}, 404),
    ("GET", "/computers/2/owner?include=", None, {}, 200),
    ("GET", "/computers/1/owner", None, ANY, 304),
    ("GET", LINKAGE, None, {}, 200),
    ("GET", f"{LINKAGE}?include=computers.owner&page[size]=1", None, {}, 200),
    ("GET", LINKAGE, None, ANY, 304),
    ("GET", f"{OWNER}?include=owner.computers&page[owner.computers][size]=1", None, {}, 200),
    ("GET", "/computers/2/relationships/owner", None, {}, 200),
    ("GET", "/assignments?include=owner,computer&page[size]=1", None, {}, 200),
    *(
        ("GET", f"{path}{name}", None, {}, 200)
        for path, names in (
            ("/assignments/1", ("", "/owner", "/computer")),
            ("/assignments/1/relationships", ("/owner", "/computer")),
            ("/persons/1", ("/assignments", "/relationships/assignments")),
            ("/computers/1", ("/assignments", "/relationships/assignments")),
        )
        for name in names
    ),
    ("GET", "/changes", None, {}, 200),
    ("GET", "/changes?page[after]=x", None, {}, 400),
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
    ("DELETE", "/computers/2", None, {}, 204),
    ("PATCH", LINKAGE, to_many("2"), {}, 204),
    ("PATCH", LINKAGE, to_many("2"), STALE, 412),
    ("PATCH", LINKAGE, {"data": None}, {}, 400),
    ("POST", LINKAGE, to_many("2"), {}, 204),
    ("POST", LINKAGE, to_many("999"), {}, 404),
    ("POST", LINKAGE, to_many("1", type="person"), {}, 409),
    ("DELETE", LINKAGE, to_many("1", "999"), {}, 204),
    ("DELETE", LINKAGE, to_many("1"), {"Content-Type": "application/json"}, 415),
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


async def test_operations_are_accepted_if_and_only_if_their_schema_allows_them(api: Api) -> None:
    await api.person()
    await api.computer()
    body = described("post", "/operations")["requestBody"]
    assert f"{MAX_CONTAINERS:,} objects and arrays" in body["description"]
    (content,) = body["content"].values()
    for operation in OPERATIONS:
        response = await api.operate(FIRST, operation)
        violations = schema_errors(content["schema"], {"atomic:operations": [FIRST, operation]})
        assert (response.status < 400) == (not violations), (operation, response.document)


async def test_operations_with_members_that_exclude_each_other_are_rejected(api: Api) -> None:
    await api.person()
    for operation in EXCLUSIVE:
        assert (await api.operate(operation)).status in {400, 404}


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

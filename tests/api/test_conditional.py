"""Conditional requests with entity tags (RFC 9110, 13)."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import product
from typing import Any

import pytest

from tests.support import MEDIA_TYPE, VARY, Api, Database, Response, stored_records, to_many

TAGGED = (
    "/persons/1",
    "/persons/1?include=computers",
    "/persons/1?fields[person]=email",
    "/persons?page[size]=1",
    "/persons?page[number]=1&page[size]=1&include=computers",
    "/persons/1/computers?page[size]=1",
    "/persons/1/relationships/computers",
    "/persons/1/relationships/computers?page[size]=1",
    "/persons/1/relationships/computers?include=computers",
    "/computers/1",
    "/computers/1?include=owner.computers",
    "/computers/1/owner",
    "/computers/2/owner",
    "/computers/1/relationships/owner",
    "/computers/2/relationships/owner",
)
"""A path of every kind whose response has an entity tag."""

WHOLE = ("/persons", "/computers?include=owner", "/persons/1/computers", "/persons?sort=-email")
"""Collections without pages, which are streamed."""

_STRONG = re.compile(r'"[!#-~]+"')

LINKAGE = "/persons/1/relationships/computers"
OLD = f'"0-{"0" * 24}"'

IDENTIFIER = {"type": "person", "id": "1"}
RENAMING = {"type": "person", "attributes": {"first_name": "New"}}
GIVING = {"type": "person", "relationships": {"computers": to_many("2")}}

PATCHING = (
    f"PATCH /persons/1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: {MEDIA_TYPE}\r\n"
)
"""The head of a PATCH of the first person, without preconditions."""

Write = tuple[str, str, Any]

PERSON_WRITES: list[Write] = [
    ("PATCH", "/persons/1", RENAMING),
    ("PATCH", "/persons/1", GIVING),
    ("PATCH", LINKAGE, to_many("2")["data"]),
    ("POST", LINKAGE, to_many("2")["data"]),
    ("DELETE", LINKAGE, to_many("1")["data"]),
    ("DELETE", "/persons/1", None),
]
COMPUTER_WRITES: list[Write] = [
    ("PATCH", "/computers/1", {"type": "computer", "attributes": {"serial": "New"}}),
    ("PATCH", "/computers/1", {"type": "computer", "relationships": {"owner": {"data": None}}}),
    ("PATCH", "/computers/1/relationships/owner", {"type": "person", "id": "2"}),
    ("DELETE", "/computers/1", None),
]
WRITES = [*PERSON_WRITES, *COMPUTER_WRITES]
"""Every way to change the first person or computer of `fleet`."""


async def fleet(api: Api) -> None:
    """Store two persons, and two computers of which the first person owns one."""
    await api.person()
    await api.person()
    await api.computer(owner="1")
    await api.computer()


async def tag(api: Api, path: str) -> str:
    """Return the current entity tag."""
    async with api.client.get(path) as response:
        assert response.status == 200
        return response.headers["ETag"]


async def send(
    api: Api, write: Write, match: str | None = None, none_match: str | None = None
) -> Response:
    method, path, data = write
    headers = {"If-Match": match, "If-None-Match": none_match}
    return await api.request(
        method,
        path,
        None if data is None and method == "DELETE" else {"data": data},
        headers={name: value for name, value in headers.items() if value is not None},
    )


def resource_path(write: Write) -> str:
    """Return the path of the resource that a write changes."""
    return "/".join(write[1].split("/")[:3])


KNOWN = ("{0}", "W/{0}", '"x", {0}', 'W/"x",{0} , "y"', "*", " * ")
UNKNOWN = ('"x"', "{1}", '"{1}x"', '"*"', "", ",", '"', '"{1}')
"""Values of `If-None-Match`: {0} is the tag, {1} the tag without quotes."""

MATCHING = ("{0}", '"x", {0}', "*", " * ")
OTHERS = ("W/{0}", "{1}", "{2}", '"*"', "")
"""Values of `If-Match` for a read: {2} is the tag of another resource."""


async def test_a_read_depends_on_its_strong_tag(api: Api) -> None:
    await fleet(api)
    other = await tag(api, "/persons/2")
    for path in TAGGED:
        etag = await tag(api, path)
        assert _STRONG.fullmatch(etag)
        for method in ("GET", "HEAD"):
            for header, values, status in (
                *[("If-None-Match", KNOWN, 304), ("If-None-Match", UNKNOWN, 200)],
                *[("If-Match", MATCHING, 200), ("If-Match", OTHERS, 412)],
            ):
                for value in values:
                    sent = {header: value.format(etag, etag.strip('"'), other)}
                    response = await api.request(method, path, headers=sent)
                    assert response.status == status, (method, path, sent)
                    if status != 412:
                        assert (response.headers["ETag"], response.headers["Vary"]) == (etag, VARY)
                    if status == 304:
                        assert response.document is None
                        assert not {"Content-Type", "Content-Length"} & response.headers.keys()
        for match, status in ((etag, 304), ('"x"', 412)):
            both = await api.get(path, **{"If-Match": match, "If-None-Match": etag})
            assert both.status == status


async def test_a_streamed_collection_has_no_tag(api: Api) -> None:
    await fleet(api)
    for path, method in product(WHOLE, ("GET", "HEAD")):
        for header, value, status in (
            *[("If-None-Match", '"x"', 200), ("If-None-Match", "*", 304)],
            *[("If-Match", "*", 200), ("If-Match", '"x"', 412), ("If-Match", "", 412)],
        ):
            response = await api.request(method, path, headers={header: value})
            assert (response.status, "ETag" in response.headers) == (status, False)


DEPENDENT = {
    "/computers/1": [
        *["/persons/1?include=computers", "/persons?page[size]=1&include=computers"],
        *[f"{LINKAGE}?include=computers", "/persons/1/computers?page[size]=1"],
    ],
    "/persons/1": [
        *["/computers/1?include=owner", "/computers/1/owner"],
        "/computers/1/relationships/owner?include=owner",
    ],
}
"""The paths whose documents show the resource at another path."""


async def test_the_tag_changes_with_included_and_related_resources(api: Api) -> None:
    await fleet(api)
    for changed, paths in DEPENDENT.items():
        before = [await tag(api, path) for path in paths]
        kind, name = ("computer", "serial") if "computers" in changed else ("person", "email")
        data = {"type": kind, "attributes": {name: "changed@example.com"}}
        assert (await api.patch(changed, data)).status == 200
        for path, etag in zip(paths, before, strict=True):
            assert (await api.get(path, **{"If-None-Match": etag})).status == 200


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_succeeds_if_its_preconditions_hold(api: Api, write: Write) -> None:
    await fleet(api)
    path = resource_path(write)
    outdated, other = await tag(api, path), await tag(api, "/persons/2")
    assert (await send(api, next(one for one in WRITES if one[1] == path))).status == 200
    match, none_match = f"{OLD}, {await tag(api, path)}", f'"x", {outdated}, {other}'
    response = await send(api, write, match, none_match)
    assert response.status in {200, 204}
    is_gone = write[:2] == ("DELETE", path)
    assert (await send(api, write, "*")).status == (404 if is_gone else response.status)


async def test_a_failed_precondition_changes_nothing(api: Api, database: Database) -> None:
    await fleet(api)
    outdated = {path: await tag(api, path) for path in ("/persons/1", "/computers/1")}
    for write in (PERSON_WRITES[0], COMPUTER_WRITES[0]):
        assert (await send(api, write)).status == 200
    records = await stored_records(database)
    for write in WRITES:
        path = resource_path(write)
        before, etag = outdated[path], await tag(api, path)
        included = await tag(api, f"{path}?include=")
        for match, none_match in (
            *((one, None) for one in (before, f"W/{before}", f"W/{etag}", OLD, '"*"', '"x"', "x")),
            *((one, None) for one in ("", ",", '"', f'"{"9" * 99}"', "W/", "*, *")),
            *((f'"{number}-{"0" * 24}"', None) for number in ("9" * 18, "-1")),
            *((None, one) for one in ("*", " * ", etag, f"W/{etag}", f'"x", {included}')),
            *[(etag, "*"), (etag, etag), ("*", etag), ("*", "*"), ('"x"', "*"), ('"x"', '"x"')],
        ):
            response = await send(api, write, match, none_match)
            assert (response.status, response.errors) == (412, [(412, "")]), (match, none_match)
            assert response.document["errors"][0]["code"] == "precondition_failed"
    for value in ("\x7f", "é", '"é"'):
        body = json.dumps({"data": RENAMING})
        request = f"{PATCHING}Content-Length: {len(body)}\r\nIf-Match: {value}\r\n\r\n{body}"
        assert (await api.raw(request.encode("latin-1")))[0] in {400, 412}
    assert await stored_records(database) == records


async def test_a_precondition_on_a_missing_resource_gets_404(api: Api) -> None:
    for write in WRITES:
        for header, value in product(("If-Match", "If-None-Match"), ("*", OLD, "x")):
            body = None if write[0] == "DELETE" and write[2] is None else {"data": write[2]}
            response = await api.request(*write[:2], body, {header: value})
            assert (response.status, response.errors) == (404, [(404, "")])


async def test_tags_in_several_header_lines_are_combined(api: Api) -> None:
    await fleet(api)
    etag = await tag(api, "/persons/1")
    lines = f'If-None-Match: "x"\r\nIf-None-Match: {etag}\r\n'
    status, _, body = await api.exchange(
        f"GET /persons/1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\n".encode()
    )
    assert (status, body) == (304, b"")
    assert await _patch_by_lines(api, '"x"', OLD) == 412
    assert await _patch_by_lines(api, OLD, etag) == 200
    assert await _patch_by_lines(api, OLD, etag) == 412


async def _patch_by_lines(api: Api, *tags: str) -> int:
    body = json.dumps({"data": RENAMING})
    lines = "".join(f"If-Match: {one}\r\n" for one in tags)
    status, _ = await api.raw(
        f"{PATCHING}Content-Length: {len(body)}\r\n{lines}\r\n{body}".encode()
    )
    return status


async def test_an_error_has_no_tag_and_never_becomes_304(api: Api) -> None:
    for path in ("/persons/9", "/persons/9/computers", "/persons?page[size]=x", "/nothing"):
        response = await api.get(path, **{"If-None-Match": "*"})
        assert (response.status in {400, 404}, "ETag" in response.headers) == (True, False)


@pytest.mark.parametrize("query", ["", "?include=computers", "?fields[person]=email&include="])
async def test_the_tag_of_a_write_is_current_for_the_next_write(api: Api, query: str) -> None:
    await api.computer()
    new = {
        "type": "person",
        "attributes": {"first_name": "Grace", "last_name": "Hopper"},
        "relationships": {"computers": to_many("1")},
    }
    response = await api.post(f"/persons{query}", new)
    assert response.status == 201
    again = {"type": "person", "attributes": {"first_name": "Newer"}}
    for data in (RENAMING, {**RENAMING, "relationships": {"computers": {"data": []}}}, again):
        write = ("PATCH", f"/persons/1{query}", data)
        known, response = response.headers["ETag"], await send(api, write, response.headers["ETag"])
        assert response.status == 200
        assert (await send(api, write, known)).status == 412
    assert (await send(api, ("DELETE", "/persons/1", None), response.headers["ETag"])).status == 204


@pytest.mark.parametrize(
    "path", [one for one in TAGGED if re.match(r"/persons/1(?!/computers)", one)]
)
async def test_the_tag_of_every_response_is_current_for_a_write(api: Api, path: str) -> None:
    await fleet(api)
    for write in PERSON_WRITES:
        assert (await send(api, write, await tag(api, path))).status in {200, 204}


async def test_if_match_compares_the_whole_tag(api: Api, database: Database) -> None:
    await fleet(api)
    paths = ("/persons/1", "/persons/2", "/computers/1", "/computers/2", "/persons?page[size]=1")
    tags = {path: (await tag(api, path)).strip('"') for path in paths}
    version, digest, check = tags["/persons/1"].split("-")
    foreign = [one.partition("-")[2] for one in tags.values()]
    tampered = [
        *(one for path, one in tags.items() if path != "/persons/1"),
        *(f"{version}-{rest}" for rest in foreign[1:]),
        *(f"{other}-{digest}-{check}" for other in (0, 1, int(version) + 1, f"0{version}")),
        *(f"{version}-{changed}-{check}" for changed in (digest[::-1], "0" * 24, digest[1:])),
        *(f"{version}-{digest}-{changed}" for changed in (check[::-1], "0" * 16, check[1:])),
        *[f"{version}-{digest}", version, tags["/persons/1"].upper(), f"{tags['/persons/1']}0"],
    ]
    records = await stored_records(database)
    for write in PERSON_WRITES:
        assert (await send(api, write, ",".join(f'"{one}"' for one in tampered))).status == 412
    for one in tampered:
        assert (await send(api, PERSON_WRITES[0], f'"{one}"')).status == 412
    assert await stored_records(database) == records
    assert (await send(api, PERSON_WRITES[0], f'"{tags["/persons/1"]}"')).status == 200


async def test_a_collection_has_no_tag_to_create_by(api: Api, database: Database) -> None:
    await fleet(api)
    create = ("POST", "/computers", {"type": "computer", "attributes": {"serial": "x"}})
    records = await stored_records(database)
    for headers in (
        *({"If-Match": one} for one in ('"x"', "", await tag(api, "/computers/1"))),
        *[{"If-None-Match": "*"}, {"If-Match": "*", "If-None-Match": "*"}],
    ):
        response = await api.request(create[0], create[1], {"data": create[2]}, headers)
        assert (response.status, response.errors) == (412, [(412, "")])
    assert await stored_records(database) == records
    assert (await send(api, create, "*", '"x"')).status == 201


async def test_operations_have_no_representation_that_if_match_could_match(api: Api) -> None:
    add = {"op": "add", "data": {"type": "computer", "attributes": {"serial": "x"}}}
    for headers, status in (
        *[({"If-Match": "*"}, 412), ({"If-Match": '"x"'}, 412)],
        *[({"If-None-Match": "*"}, 200), ({"If-None-Match": '"x"'}, 200)],
    ):
        assert (await api.operate(add, **headers)).status == status


@pytest.mark.parametrize("is_versioned", [True, False])
@pytest.mark.parametrize(
    "write", [PERSON_WRITES[0], PERSON_WRITES[1], *PERSON_WRITES[3:], COMPUTER_WRITES[2]]
)
async def test_one_of_many_concurrent_writes_with_the_same_tag_succeeds(
    api: Api, database: Database, write: Write, is_versioned: bool
) -> None:
    await fleet(api)
    if not is_versioned:
        for name in ("persons", "computers"):
            await database[name].update_many({}, {"$unset": {"version": True}})
    etag = await tag(api, resource_path(write))
    responses = await asyncio.gather(*(send(api, write, etag) for _ in range(12)))
    statuses = [response.status for response in responses]
    assert len([status for status in statuses if status < 300]) == 1
    is_gone = write[:2] == ("DELETE", "/persons/1")
    assert {status for status in statuses if status >= 300} <= ({404, 412} if is_gone else {412})

"""Conditional requests with entity tags (RFC 9110, 13)."""

from __future__ import annotations

import asyncio
import json
import re
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


@pytest.mark.parametrize("path", TAGGED)
async def test_a_response_has_a_strong_tag_that_is_stable(api: Api, path: str) -> None:
    await fleet(api)
    etag = await tag(api, path)
    assert _STRONG.fullmatch(etag)
    assert await tag(api, path) == etag
    assert (await api.request("HEAD", path)).headers["ETag"] == etag


@pytest.mark.parametrize("path", TAGGED)
async def test_a_known_tag_gets_304(api: Api, path: str) -> None:
    await fleet(api)
    etag = await tag(api, path)
    for known in (etag, f"W/{etag}", f'"x", {etag}', f'W/"x",{etag} , "y"', "*", " * "):
        for method in ("GET", "HEAD"):
            response = await api.request(method, path, headers={"If-None-Match": known})
            assert (response.status, response.document) == (304, None)
            assert (response.headers["ETag"], response.headers["Vary"]) == (etag, VARY)
            assert not {"Content-Type", "Content-Length"} & response.headers.keys()


@pytest.mark.parametrize("path", TAGGED)
async def test_an_unknown_tag_gets_the_document(api: Api, path: str) -> None:
    await fleet(api)
    etag = await tag(api, path)
    unquoted = etag.strip('"')
    for known in ('"x"', unquoted, f'"{unquoted.upper()}x"', '"*"', "", ",", '"', f'"{unquoted}'):
        async with api.client.get(path, headers={"If-None-Match": known}) as response:
            assert (response.status, response.headers["ETag"]) == (200, etag)
            assert await response.read()


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


@pytest.mark.parametrize("path", WHOLE)
async def test_a_streamed_collection_has_no_tag(api: Api, path: str) -> None:
    await fleet(api)
    for method in ("GET", "HEAD"):
        for header, value, status in (
            *[("If-None-Match", '"x"', 200), ("If-None-Match", "*", 304)],
            *[("If-Match", "*", 200), ("If-Match", '"x"', 412), ("If-Match", "", 412)],
        ):
            response = await api.request(method, path, headers={header: value})
            assert (response.status, "ETag" in response.headers) == (status, False)


async def test_an_error_has_no_tag_and_never_becomes_304(api: Api) -> None:
    for path in ("/persons/9", "/persons/9/computers", "/persons?page[size]=x", "/nothing"):
        response = await api.get(path, **{"If-None-Match": "*"})
        assert (response.status in {400, 404}, "ETag" in response.headers) == (True, False)


async def test_each_combination_of_parameters_has_its_own_tag(api: Api) -> None:
    await fleet(api)
    queries = ("", "?fields[person]=email", "?fields[person]=", "?include=computers", "?include=")
    tags = {await tag(api, f"/persons/1{query}") for query in queries}
    assert len(tags) == len(queries)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/persons/1?include=computers", ("PATCH", "/computers/1", "serial")),
        ("/persons?page[size]=1&include=computers", ("PATCH", "/computers/1", "serial")),
        (f"{LINKAGE}?include=computers", ("PATCH", "/computers/1", "serial")),
        ("/persons/1/computers?page[size]=1", ("PATCH", "/computers/1", "serial")),
        ("/computers/1?include=owner", ("PATCH", "/persons/1", "last_name")),
        ("/computers/1/owner", ("PATCH", "/persons/1", "last_name")),
        ("/computers/1/relationships/owner?include=owner", ("PATCH", "/persons/1", "last_name")),
    ],
)
async def test_the_tag_changes_with_included_and_related_resources(
    api: Api, path: str, change: Write
) -> None:
    await fleet(api)
    before = await tag(api, path)
    method, changed, attribute = change
    kind = changed.split("/")[1].removesuffix("s")
    response = await send(
        api, (method, changed, {"type": kind, "attributes": {attribute: "Changed"}})
    )
    assert response.status == 200
    assert await tag(api, path) != before
    async with api.client.get(path, headers={"If-None-Match": before}) as read:
        assert read.status == 200


@pytest.mark.parametrize("write", [*PERSON_WRITES, *COMPUTER_WRITES])
async def test_a_write_with_the_current_tag_succeeds(api: Api, write: Write) -> None:
    await fleet(api)
    path = "/".join(write[1].split("/")[:3])
    response = await send(api, write, f"{OLD}, {await tag(api, path)}")
    assert response.status in {200, 204}
    assert (await send(api, write, "*")).status == (
        404 if write[:2] == ("DELETE", path) else response.status
    )


@pytest.mark.parametrize("write", [*PERSON_WRITES, *COMPUTER_WRITES])
async def test_a_write_with_an_outdated_tag_fails(
    api: Api, database: Database, write: Write
) -> None:
    await fleet(api)
    path = "/".join(write[1].split("/")[:3])
    before = await tag(api, path)
    kind, name = ("person", "email") if path.startswith("/persons") else ("computer", "serial")
    newer = {"type": kind, "attributes": {name: "newer@example.com"}}
    assert (await send(api, ("PATCH", path, newer))).status == 200
    records = await stored_records(database)
    weak = f"W/{await tag(api, path)}"
    for match in (
        before,
        f"W/{before}",
        weak,
        OLD,
        '"*"',
        '"x"',
        "x",
        "",
        ",",
        '"',
        f'"{"9" * 99}"',
    ):
        response = await send(api, write, match)
        assert (response.status, response.errors) == (412, [(412, "")])
        assert response.document["errors"][0]["code"] == "precondition_failed"
    assert await stored_records(database) == records


@pytest.mark.parametrize(
    "match", ["\x7f", "é", '"é"', "W/", "*, *", f'"{"9" * 18}-{"0" * 24}"', f'"-1-{"0" * 24}"']
)
async def test_a_malformed_precondition_fails(api: Api, match: str) -> None:
    await fleet(api)
    body = json.dumps({"data": RENAMING})
    request = f"{PATCHING}Content-Length: {len(body)}\r\nIf-Match: {match}\r\n\r\n{body}"
    status, _ = await api.raw(request.encode("latin-1"))
    assert status in {400, 412}
    assert (await api.get("/persons/1")).data["attributes"]["first_name"] == "Grace"


@pytest.mark.parametrize("match", ["*", OLD, "x"])
@pytest.mark.parametrize("write", [*PERSON_WRITES, *COMPUTER_WRITES])
async def test_a_precondition_on_a_missing_resource_gets_404(
    api: Api, write: Write, match: str
) -> None:
    response = await send(api, write, match)
    assert (response.status, response.errors) == (404, [(404, "")])


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


async def test_the_tag_of_a_written_computer_is_current_for_the_next_write(api: Api) -> None:
    await api.person()
    owner = {"owner": {"data": IDENTIFIER}}
    new = {"type": "computer", "attributes": {"serial": "x"}, "relationships": owner}
    response = await api.post("/computers", new)
    for relationships in ({"owner": {"data": None}}, owner, {}):
        write = ("PATCH", "/computers/1", {"type": "computer", "relationships": relationships})
        response = await send(api, write, response.headers["ETag"])
        assert response.status == 200
    linkage = ("PATCH", "/computers/1/relationships/owner", None)
    assert (await send(api, linkage, response.headers["ETag"])).status == 204
    assert (await send(api, linkage, response.headers["ETag"])).status == 412


@pytest.mark.parametrize(
    "path", [one for one in TAGGED if re.match(r"/persons/1(?!/computers)", one)]
)
async def test_the_tag_of_every_response_for_a_resource_is_current_for_a_write(
    api: Api, path: str
) -> None:
    await fleet(api)
    for write in PERSON_WRITES:
        assert (await send(api, write, await tag(api, path))).status in {200, 204}


@pytest.mark.parametrize("path", TAGGED)
async def test_a_read_succeeds_only_if_if_match_has_the_tag(api: Api, path: str) -> None:
    await fleet(api)
    etag = await tag(api, path)
    other = await tag(api, "/persons/2")
    for match, status in (
        *[(etag, 200), (f'"x", {etag}', 200), ("*", 200), (" * ", 200)],
        *[(f"W/{etag}", 412), (etag.strip('"'), 412), (other, 412), ('"*"', 412), ("", 412)],
    ):
        for method in ("GET", "HEAD"):
            headers = {"If-Match": match, "If-None-Match": '"x"'}
            assert (await api.request(method, path, headers=headers)).status == status
    both = await api.get(path, **{"If-Match": etag, "If-None-Match": etag})
    assert (both.status, both.document) == (304, None)
    both = await api.get(path, **{"If-Match": '"x"', "If-None-Match": etag})
    assert (both.status, both.errors) == (412, [(412, "")])


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


@pytest.mark.parametrize("write", [*PERSON_WRITES, *COMPUTER_WRITES])
async def test_a_write_with_a_matching_if_none_match_fails(
    api: Api, database: Database, write: Write
) -> None:
    await fleet(api)
    path = resource_path(write)
    etag, included = await tag(api, path), await tag(api, f"{path}?include=")
    records = await stored_records(database)
    for match, none_match in (
        *[(None, one) for one in ("*", " * ", etag, f"W/{etag}", f'"x", {included}')],
        *[(etag, "*"), (etag, etag), ("*", etag), ("*", "*"), ('"x"', "*"), ('"x"', '"x"')],
    ):
        response = await send(api, write, match, none_match)
        assert (response.status, response.errors) == (412, [(412, "")])
    assert await stored_records(database) == records


@pytest.mark.parametrize("write", [*PERSON_WRITES, *COMPUTER_WRITES])
async def test_a_write_with_another_if_none_match_succeeds(api: Api, write: Write) -> None:
    await fleet(api)
    path = resource_path(write)
    outdated = await tag(api, path)
    rename = next(one for one in (*PERSON_WRITES, *COMPUTER_WRITES) if one[1] == path)
    assert (await send(api, rename)).status == 200
    others = f'"x", {outdated}, {await tag(api, "/persons/2")}'
    assert (await send(api, write, none_match=others)).status in {200, 204}


async def test_both_preconditions_of_a_write_must_hold(api: Api) -> None:
    await fleet(api)
    outdated = await tag(api, "/persons/1")
    assert (await send(api, PERSON_WRITES[0])).status == 200
    for match, none_match, status in (
        *[
            ("*", "", 200),
            ("*", outdated, 200),
            ("current", outdated, 200),
            ("current", '"x"', 200),
        ],
        *[(outdated, "", 412), (outdated, outdated, 412), (outdated, '"x"', 412)],
    ):
        sent = await tag(api, "/persons/1") if match == "current" else match
        assert (await send(api, PERSON_WRITES[0], sent, none_match)).status == status


async def test_concurrent_writes_with_an_outdated_if_none_match_all_succeed(api: Api) -> None:
    await fleet(api)
    before = await tag(api, "/persons/1")
    assert (await send(api, ("PATCH", "/persons/1", RENAMING))).status == 200
    writes = [("PATCH", "/persons/1", RENAMING), PERSON_WRITES[3], PERSON_WRITES[4]] * 4
    responses = await asyncio.gather(*(send(api, one, none_match=before) for one in writes))
    assert {response.status for response in responses} <= {200, 204}


@pytest.mark.parametrize("none_match", ["*", '"x"'])
@pytest.mark.parametrize("write", [*PERSON_WRITES, *COMPUTER_WRITES])
async def test_if_none_match_on_a_missing_resource_gets_404(
    api: Api, write: Write, none_match: str
) -> None:
    response = await send(api, write, none_match=none_match)
    assert (response.status, response.errors) == (404, [(404, "")])


async def test_a_collection_exists_but_has_no_tag_to_create_by(
    api: Api, database: Database
) -> None:
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
    media_type = f'{MEDIA_TYPE}; ext="https://jsonapi.org/ext/atomic"'
    body = json.dumps({"atomic:operations": [add]}).encode()
    for headers, status in (
        *[({"If-Match": "*"}, 412), ({"If-Match": '"x"'}, 412)],
        *[({"If-None-Match": "*"}, 200), ({"If-None-Match": '"x"'}, 200)],
    ):
        sent = {"Content-Type": media_type} | headers
        async with api.client.post("/operations", data=body, headers=sent) as response:
            assert response.status == status


async def test_a_record_with_a_floating_point_id_supports_preconditions(
    api: Api, database: Database
) -> None:
    await database.persons.insert_one({"_id": 1.0, "first_name": "A", "last_name": "B"})
    before = await tag(api, "/persons/1")
    assert (await send(api, PERSON_WRITES[0], before)).status == 200
    assert (await send(api, PERSON_WRITES[0], before)).status == 412


MOVES: list[Write] = [
    ("PATCH", "/persons/2", {"type": "person", "relationships": {"computers": to_many("1")}}),
    ("PATCH", "/persons/2/relationships/computers", to_many("1")["data"]),
    ("POST", "/persons/2/relationships/computers", to_many("1")["data"]),
    ("PATCH", "/computers/1/relationships/owner", {"type": "person", "id": "2"}),
    (
        "PATCH",
        "/computers/1",
        {"type": "computer", "relationships": {"owner": {"data": {"type": "person", "id": "2"}}}},
    ),
]


@pytest.mark.parametrize("move", MOVES)
async def test_a_move_changes_the_tags_of_the_computer_and_both_owners(
    api: Api, move: Write
) -> None:
    await fleet(api)
    await api.person()
    concerned, others = ("/computers/1", "/persons/1", "/persons/2"), ("/computers/2", "/persons/3")
    before = {path: await tag(api, path) for path in (*concerned, *others)}
    assert (await send(api, move)).status in {200, 204}
    after = {path: await tag(api, path) for path in before}
    assert {path for path in before if before[path] != after[path]} == set(concerned)
    for path in concerned:
        assert (await send(api, ("DELETE", path, None), before[path])).status == 412


async def test_a_deletion_changes_the_tags_of_linked_resources(api: Api) -> None:
    await fleet(api)
    for path, other in (("/persons/1", "/computers/1"), ("/computers/2", "/persons/2")):
        if other == "/persons/2":
            await send(
                api, ("PATCH", "/computers/2/relationships/owner", {"type": "person", "id": "2"})
            )
        before = await tag(api, other)
        assert (await send(api, ("DELETE", path, None))).status == 204
        assert await tag(api, other) != before
        assert (await send(api, ("DELETE", other, None), before)).status == 412


@pytest.mark.parametrize("write", [PERSON_WRITES[0], PERSON_WRITES[1], *PERSON_WRITES[3:]])
async def test_one_of_many_concurrent_writes_with_the_same_tag_succeeds(
    api: Api, write: Write
) -> None:
    await fleet(api)
    etag = await tag(api, "/persons/1")
    responses = await asyncio.gather(*(send(api, write, etag) for _ in range(12)))
    rejected = {404} if write[:2] == ("DELETE", "/persons/1") else {412}
    statuses = [response.status for response in responses]
    assert len([status for status in statuses if status < 300]) == 1
    assert {status for status in statuses if status >= 300} <= rejected | {412}


async def test_one_of_several_kinds_of_concurrent_writes_with_the_same_tag_succeeds(
    api: Api,
) -> None:
    for _ in range(5):
        number, other = await api.person(), await api.person()
        mine, free = await api.computer(owner=number), await api.computer()
        path = f"/persons/{number}"
        writes: list[Write] = [
            ("PATCH", path, RENAMING),
            ("PATCH", path, {"type": "person", "relationships": {"computers": to_many(free)}}),
            ("POST", f"{path}/relationships/computers", to_many(free)["data"]),
            ("DELETE", f"{path}/relationships/computers", to_many(mine)["data"]),
            ("DELETE", path, None),
        ]
        etag = await tag(api, path)
        responses = await asyncio.gather(*(send(api, write, etag) for write in writes * 2))
        assert len([one for one in responses if one.status < 300]) == 1
        assert {one.status for one in responses if one.status >= 300} <= {404, 412}
        assert (await send(api, ("DELETE", f"/persons/{other}", None))).status == 204


async def test_one_of_many_concurrent_moves_with_the_same_tag_succeeds(api: Api) -> None:
    await api.computer()
    persons = [await api.person() for _ in range(10)]
    etag = await tag(api, "/computers/1")
    responses = await asyncio.gather(
        *(
            send(
                api,
                ("PATCH", "/computers/1/relationships/owner", {"type": "person", "id": person}),
                etag,
            )
            for person in persons
        )
    )
    assert sorted(response.status for response in responses) == [204] + [412] * 9
    winner = persons[[response.status for response in responses].index(204)]
    assert (await api.get("/computers/1/owner")).id == winner


async def test_a_change_of_the_linkage_outdates_the_tag_of_the_other_side(api: Api) -> None:
    """Either the computer moves first and the owner has changed, or the other way round."""
    owner = ("PATCH", "/computers/{}/relationships/owner", IDENTIFIER)
    await api.person()
    for _ in range(10):
        number = await api.computer()
        etag = await tag(api, "/persons/1")
        moved, renamed = await asyncio.gather(
            send(api, (owner[0], owner[1].format(number), owner[2])),
            send(api, PERSON_WRITES[0], etag),
        )
        assert moved.status == 204
        assert renamed.status in {200, 412}
        assert (await send(api, PERSON_WRITES[0], etag)).status == 412


@pytest.mark.parametrize(
    "version",
    [
        ...,
        None,
        "x",
        "",
        True,
        1.5,
        3.0,
        float("nan"),
        float("inf"),
        -1,
        2**62,
        [1],
        [],
        {},
        {"x": 1},
    ],
    ids=repr,
)
async def test_a_record_without_a_valid_version_supports_preconditions(
    api: Api, database: Database, version: Any
) -> None:
    more = {} if version is ... else {"version": version}
    names = {"first_name": "A", "last_name": "B"}
    await database.persons.insert_many([{"_id": number, **names, **more} for number in (1, 2)])
    await database.computers.insert_many([{"_id": 1, "serial": "x", **more}, {"_id": 2, **more}])
    for path, write in (
        ("/persons/1", PERSON_WRITES[0]),
        ("/persons/1", PERSON_WRITES[3]),
        ("/computers/1", COMPUTER_WRITES[0]),
        ("/computers/1", COMPUTER_WRITES[2]),
    ):
        before = await tag(api, path)
        for rejected in ('"x"', f'"1{before[1:]}'):
            assert (await send(api, write, rejected)).status == 412
        assert (await send(api, write, before)).status in {200, 204}
        assert (await send(api, write, before)).status == 412


@pytest.mark.parametrize("version", [..., "x", 2.0])
@pytest.mark.parametrize("write", [PERSON_WRITES[0], PERSON_WRITES[1], PERSON_WRITES[5]])
async def test_one_of_many_concurrent_writes_of_a_record_without_version_succeeds(
    api: Api, database: Database, version: Any, write: Write
) -> None:
    more = {} if version is ... else {"version": version}
    await database.persons.insert_one({"_id": 1, "first_name": "A", "last_name": "B", **more})
    await database.computers.insert_many([{"_id": 1, "person": 1}, {"_id": 2}])
    etag = await tag(api, "/persons/1")
    responses = await asyncio.gather(*(send(api, write, etag) for _ in range(8)))
    assert len([one for one in responses if one.status < 300]) == 1
    assert {one.status for one in responses if one.status >= 300} <= {404, 412}


async def test_an_external_write_changes_the_tag(api: Api, database: Database) -> None:
    await fleet(api)
    before = await tag(api, "/persons/1")
    await database.persons.update_one({"_id": 1}, {"$set": {"email": "g@example.com"}})
    assert (await api.get("/persons/1", **{"If-None-Match": before})).status == 200

"""Conditional requests with entity tags (RFC 9110, 13)."""

import asyncio
import json
import re
from itertools import product
from typing import Any

import pytest

from tests.support import (
    COMPUTER,
    MEDIA_TYPE,
    PERSON,
    VARY,
    Api,
    Database,
    Response,
    add,
    identifier,
    new,
    stored_records,
    to_many,
    to_one,
)

TAGGED = (
    "/persons/1",
    "/persons/1?include=computers",
    "/persons/1?fields[person]=email",
    "/persons?page[size]=1",
    "/persons?page[number]=1&page[size]=1&include=computers",
    "/persons/1/computers?page[size]=1",
    "/persons/1/relationships/computers?page[size]=1",
    "/persons/1/relationships/computers?include=computers&page[size]=2",
    "/computers/1",
    "/computers/1?include=owner.computers",
    "/computers/1/owner",
    "/computers/2/owner",
    "/computers/1/relationships/owner",
    "/computers/2/relationships/owner",
)
"""A path of every kind whose response has an entity tag."""

WHOLE = (
    *("/persons", "/computers?include=owner", "/persons/1/computers", "/persons?sort=-email"),
    "/persons/1/relationships/computers",
)
"""Collections and linkage without pages, which are streamed."""

LINKAGE = "/persons/1/relationships/computers"
OLD = f'"0-{"0" * 24}"'
RENAMING = new("person", first_name="New")

Write = tuple[str, str, Any]

PERSON_WRITES: list[Write] = [
    ("PATCH", "/persons/1", RENAMING),
    ("PATCH", "/persons/1", new("person", {"computers": to_many("2")})),
    *((method, LINKAGE, to_many("2")["data"]) for method in ("PATCH", "POST")),
    ("DELETE", LINKAGE, to_many("1")["data"]),
    ("DELETE", "/persons/1", None),
]
COMPUTER_WRITES: list[Write] = [
    ("PATCH", "/computers/1", new("computer", serial="New")),
    ("PATCH", "/computers/1", new("computer", {"owner": to_one(None)})),
    ("PATCH", "/computers/1/relationships/owner", identifier("person", "2")),
    ("DELETE", "/computers/1", None),
]
WRITES = [*PERSON_WRITES, *COMPUTER_WRITES]
"""Every way to change the first person or computer of `fleet`."""


@pytest.fixture
async def fleet(api: Api) -> Api:
    """Two persons, the first of whom owns the first of two computers."""
    for _ in range(2):
        await api.person()
    await api.computer(owner="1")
    await api.computer()
    return api


async def tag(api: Api, path: str) -> str:
    """Return the current entity tag."""
    return (await api.get(path)).headers["ETag"]


async def send(
    api: Api, write: Write, match: str | None = None, none_match: str | None = None
) -> Response:
    headers = {"If-Match": match, "If-None-Match": none_match}
    return await api.send(
        *write, **{name: header for name, header in headers.items() if header is not None}
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


async def test_a_read_depends_on_its_strong_tag(fleet: Api) -> None:
    other = await tag(fleet, "/persons/2")
    for path, method in product(TAGGED, ("GET", "HEAD")):
        etag = await tag(fleet, path)
        assert re.fullmatch(r'"[!#-~]+"', etag)
        for header, values, status in (
            *[("If-None-Match", KNOWN, 304), ("If-None-Match", UNKNOWN, 200)],
            *[("If-Match", MATCHING, 200), ("If-Match", OTHERS, 412)],
        ):
            for value in values:
                sent = {header: value.format(etag, etag.strip('"'), other)}
                response = await fleet.request(method, path, headers=sent)
                assert response.status == status, (method, path, sent)
                if status != 412:
                    assert (response.headers["ETag"], response.headers["Vary"]) == (etag, VARY)
                if status == 304:
                    assert response.document is None
                    assert not {"Content-Type", "Content-Length"} & response.headers.keys()
        for match, status in ((etag, 304), ('"x"', 412)):
            both = {"If-Match": match, "If-None-Match": etag}
            assert (await fleet.request(method, path, headers=both)).status == status


async def test_a_streamed_collection_has_no_tag(fleet: Api) -> None:
    for path, method in product(WHOLE, ("GET", "HEAD")):
        for header, value, status in (
            *[("If-None-Match", '"x"', 200), ("If-None-Match", "*", 304)],
            *[("If-Match", "*", 200), ("If-Match", '"x"', 412), ("If-Match", "", 412)],
        ):
            response = await fleet.request(method, path, headers={header: value})
            assert (response.status, "ETag" in response.headers) == (status, False)


DEPENDENT = {
    "/computers/1": [
        *["/persons/1?include=computers", "/persons?page[size]=1&include=computers"],
        *[f"{LINKAGE}?include=computers&page[size]=1", "/persons/1/computers?page[size]=1"],
    ],
    "/persons/1": [
        *["/computers/1?include=owner", "/computers/1/owner"],
        "/computers/1/relationships/owner?include=owner",
    ],
}
"""The paths whose documents show the resource at another path."""


async def test_the_tag_changes_with_included_and_related_resources(fleet: Api) -> None:
    for write in (PERSON_WRITES[0], COMPUTER_WRITES[0]):
        before = {path: await tag(fleet, path) for path in DEPENDENT[write[1]]}
        assert (await send(fleet, write)).status == 200
        for path, etag in before.items():
            assert await tag(fleet, path) != etag


async def test_a_failed_precondition_changes_nothing(fleet: Api, database: Database) -> None:
    outdated = {path: await tag(fleet, path) for path in ("/persons/1", "/computers/1")}
    for write in (PERSON_WRITES[0], COMPUTER_WRITES[0]):
        assert (await send(fleet, write)).status == 200
    records = await stored_records(database)
    for write in WRITES:
        path = resource_path(write)
        before, etag = outdated[path], await tag(fleet, path)
        included = await tag(fleet, f"{path}?include=")
        for match, none_match in (
            *(
                (text, None)
                for text in (before, f"W/{before}", f"W/{etag}", OLD, '"*"', '"x"', "x")
            ),
            *((text, None) for text in ("", ",", '"', f'"{"9" * 99}"', "W/", "*, *")),
            *((f'"{number}-{"0" * 24}"', None) for number in ("9" * 18, "-1")),
            *((None, text) for text in ("*", " * ", etag, f"W/{etag}", f'"x", {included}')),
            *[(etag, "*"), (etag, etag), ("*", etag), ("*", "*"), ('"x"', "*"), ('"x"', '"x"')],
        ):
            response = await send(fleet, write, match, none_match)
            assert (response.status, response.errors) == (412, [(412, "")]), (match, none_match)
    for value in ("\x7f", "é", '"é"'):
        assert await patch_by_lines(fleet, value) in {400, 412}
    assert await stored_records(database) == records


async def patch_by_lines(api: Api, *tags: str) -> int:
    """Rename the first person if it has one of these tags, each in a line of its own."""
    body = json.dumps({"data": RENAMING})
    lines = "".join(f"If-Match: {value}\r\n" for value in tags)
    head = "PATCH /persons/1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
    head += f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    status, _, _ = await api.exchange(f"{head}{body}".encode("latin-1"))
    return status


async def test_a_precondition_on_a_missing_resource_gets_404(api: Api) -> None:
    for write, value in product(WRITES, ("*", OLD, "x")):
        for headers in ({"match": value}, {"none_match": value}):
            assert (await send(api, write, **headers)).errors == [(404, "")]


async def test_tags_in_several_header_lines_are_combined(fleet: Api) -> None:
    etag = await tag(fleet, "/persons/1")
    lines = f'If-None-Match: "x"\r\nIf-None-Match: {etag}\r\n'
    status, _, body = await fleet.exchange(
        f"GET /persons/1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\n".encode()
    )
    assert (status, body) == (304, b"")
    for tags, expected in ((('"x"', OLD), 412), ((OLD, etag), 200), ((OLD, etag), 412)):
        assert await patch_by_lines(fleet, *tags) == expected


async def test_an_error_has_no_tag_and_never_becomes_304(api: Api) -> None:
    for path in ("/persons/9", "/persons/9/computers", "/persons?page[size]=x", "/nothing"):
        response = await api.get(path, **{"If-None-Match": "*"})
        assert (response.status in {400, 404}, "ETag" in response.headers) == (True, False)


@pytest.mark.parametrize("query", ["", "?include=computers", "?fields[person]=email&include="])
async def test_the_tag_of_a_write_is_current_for_the_next_write(api: Api, query: str) -> None:
    await api.computer()
    linked = PERSON | {"relationships": {"computers": to_many("1")}}
    response = await api.post(f"/persons{query}", linked)
    unlinked = RENAMING | {"relationships": {"computers": to_many()}}
    for data in (RENAMING, unlinked, new("person", first_name="Newer")):
        write, known = ("PATCH", f"/persons/1{query}", data), response.headers["ETag"]
        response = await send(api, write, known)
        assert response.status == 200
        assert (await send(api, write, known)).status == 412
    assert (await send(api, ("DELETE", "/persons/1", None), response.headers["ETag"])).status == 204


@pytest.mark.parametrize(
    "path", [path for path in TAGGED if re.match(r"/persons/1(?!/computers)", path)]
)
async def test_the_tag_of_every_response_is_current_for_a_write(fleet: Api, path: str) -> None:
    for write in PERSON_WRITES:
        assert (await send(fleet, write, await tag(fleet, path))).status in {200, 204}


async def test_if_match_compares_the_whole_tag(fleet: Api, database: Database) -> None:
    paths = ("/persons/1", "/persons/2", "/computers/1", "/computers/2", "/persons?page[size]=1")
    whole, *others = [(await tag(fleet, path)).strip('"') for path in paths]
    version, digest, check = whole.split("-")
    tampered = [
        *others,
        *(f"{version}-{text.partition('-')[2]}" for text in others),
        *(f"{other}-{digest}-{check}" for other in (0, 1, int(version) + 1, f"0{version}")),
        *(f"{version}-{changed}-{check}" for changed in (digest[::-1], "0" * 24, digest[1:])),
        *(f"{version}-{digest}-{changed}" for changed in (check[::-1], "0" * 16, check[1:])),
        *[f"{version}-{digest}", version, whole.upper(), f"{whole}0"],
    ]
    records = await stored_records(database)
    for write in PERSON_WRITES:
        assert (
            await send(fleet, write, ",".join(f'"{value}"' for value in tampered))
        ).status == 412
    for value in tampered:
        assert (await send(fleet, PERSON_WRITES[0], f'"{value}"')).status == 412
    assert await stored_records(database) == records
    assert (await send(fleet, PERSON_WRITES[0], f'{OLD}, "{whole}"', '"x"')).status == 200


async def test_neither_collections_nor_operations_have_a_tag(
    fleet: Api, database: Database
) -> None:
    create: Write = ("POST", "/computers", COMPUTER)
    records = await stored_records(database)
    for match, none_match in (
        *((item, None) for item in ('"x"', "", await tag(fleet, "/computers/1"))),
        *[(None, "*"), ("*", "*")],
    ):
        assert (await send(fleet, create, match, none_match)).errors == [(412, "")]
    for value in ("*", '"x"'):
        assert (await fleet.operate(add(COMPUTER), **{"If-Match": value})).status == 412
    assert await stored_records(database) == records
    assert (await send(fleet, create, "*", '"x"')).status == 201
    for value in ("*", '"x"'):
        assert (await fleet.operate(add(COMPUTER), **{"If-None-Match": value})).status == 200


@pytest.mark.parametrize(
    "write", [PERSON_WRITES[0], PERSON_WRITES[1], *PERSON_WRITES[3:], COMPUTER_WRITES[2]]
)
async def test_one_of_many_concurrent_writes_with_the_same_tag_succeeds(
    fleet: Api, write: Write
) -> None:
    etag = await tag(fleet, resource_path(write))
    responses = await asyncio.gather(*(send(fleet, write, etag) for _ in range(12)))
    statuses = [response.status for response in responses]
    assert len([status for status in statuses if status < 300]) == 1
    is_gone = write[:2] == ("DELETE", "/persons/1")
    assert {status for status in statuses if status >= 300} <= ({404, 412} if is_gone else {412})

"""Every error is an error document, and no request makes the service fail."""

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest

from tests.support import PERSON, Api, new, to_many

POSTING = b"POST /persons HTTP/1.1\r\nHost: h\r\nContent-Type: application/vnd.api+json\r\n"
"""The head of a request with a body, without the headers that frame the body."""

CLOSE = b"Connection: close\r\n"
BODY = json.dumps({"data": PERSON}).encode()
WRITES = [("POST", "/persons"), ("PATCH", "/persons/1")]


async def test_each_error_has_its_own_id(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "registry")
    refused = await api.get("/persons?x=1&sort=y&include=z", **{"X-Request-ID": "mine"})
    assert [error["id"] for error in refused.document["errors"]] == ["mine", "mine-2", "mine-3"]
    assert refused.headers["X-Request-ID"] == "mine"
    assert "mine" in caplog.text


async def test_an_unknown_path_is_not_found(api: Api) -> None:
    for path, method in product(
        (
            *("/person", "/person/", "/persons//", "/persons/1/x", "//", "/nothing/"),
            *("//attacker.example/", "///attacker.example/persons/", "/\\attacker.example/"),
            *("/persons/1//", "/persons/1/relationships", "/persons/1/relationships/"),
            *("/persons/1/relationships/owner", "/computers/1/relationships/person"),
        ),
        ("GET", "POST", "PATCH", "DELETE", "OPTIONS"),
    ):
        status, document = await api.raw(
            f"{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode()
        )
        assert (status, document["errors"][0]["code"]) == (404, "not_found"), (method, path)


NOT_JSON = [
    *[b"", b"{", b"not json", b"\0", b"\xff\xfe", b'\xef\xbb\xbf{"data": {}}', b'{"data": "\xff"}'],
    *[b'{"data": {"type": "person",}}', b'{"data": {}} trailing', b'{"data": {"\\udfff": 1}}'],
    *[b'{"data": NaN}', b'{"data": Infinity}', b'{"data": 1e999}'],
    *[b"[" * 100_000, b'{"data":' * 50_000],
    b'{"data": {"type": "person", "attributes": {"first_name": "\\ud800"}}}',
]


async def test_a_body_that_is_not_valid_json_is_rejected(api: Api) -> None:
    for body, (method, path) in product(NOT_JSON, WRITES):
        response = await api.request(method, path, body)
        assert response.errors == [(400, "")], body[:40]
        assert response.document["errors"][0]["source"] == {"pointer": ""}


NO_OBJECTS: tuple[Any, ...] = (None, [], "x", 5)

OTHER_STRUCTURES: list[tuple[Any, str]] = [
    *((value, "") for value in NO_OBJECTS),
    *(({"data": value}, "/data") for value in (*NO_OBJECTS, [PERSON])),
    *[({}, "/data"), ({"errors": []}, "/data"), ({"Data": PERSON}, "/data")],
    *(({"data": PERSON | value}, "/data/type") for value in ({"type": None}, {"type": ["person"]})),
    ({"data": {"Type": "person", "attributes": PERSON["attributes"]}}, "/data/type"),
    *(
        ({"data": PERSON | {"relationships": value}}, f"/data/relationships{pointer}")
        for value, pointer in [
            *[([], ""), ({"computers": None}, "/computers"), ({"computers": {}}, "/computers")],
            *[
                ({"computers": {"data": object_}}, "/computers/data")
                for object_ in NO_OBJECTS
                if object_ != []
            ],
            ({"computers": {"data": [None]}}, "/computers/data/0"),
            ({"computers": {"data": [{"type": None, "id": "1"}]}}, "/computers/data/0/type"),
        ]
    ),
    *(
        ({"data": PERSON | {"attributes": value}}, "/data/attributes")
        for value in (None, [], ["first_name"], "x", 5, True)
    ),
]


async def test_a_document_of_another_structure_is_rejected_with_a_pointer(api: Api) -> None:
    for (document, pointer), (method, path) in product(OTHER_STRUCTURES, WRITES):
        response = await api.request(method, path, json.dumps(document).encode())
        assert (response.status, response.errors[0]) == (400, (400, pointer)), document


async def test_errors_of_query_and_document_are_reported_together(
    api: Api,
) -> None:
    for method, path, data, expected in (
        (
            *("PATCH", "/persons/9?include=x&fields[y]=", new("person", x=1)),
            [(400, "fields[y]"), (400, "include"), (422, "/data/attributes/x")],
        ),
        ("PATCH", "/persons/x?x=1", new("computer"), [(400, "x"), (409, "/data/type")]),
        (
            *("DELETE", "/persons/9/relationships/computers?a=1&b=2&a=3", [7]),
            [(400, "a"), (400, "b"), (400, "/data/0")],
        ),
        ("DELETE", "/persons/x?a=1&b=2", None, [(400, "a"), (400, "b")]),
        ("PATCH", "/computers/9/relationships/owner?a=1", [], [(400, "a"), (400, "/data")]),
    ):
        response = await api.send(method, path, data)
        assert (response.status, response.errors) == (400, expected)


async def test_a_body_that_cannot_be_read_is_reported_by_itself(api: Api) -> None:
    response = await api.request("POST", "/persons?x=1", b"{}", {"Content-Type": "text/plain"})
    assert (response.status, response.errors) == (415, [(415, "")])


async def test_a_body_larger_than_a_mebibyte_is_rejected(api_on_runner: Api) -> None:
    # Before the first request: it takes longer than the service keeps an idle connection.
    bomb, api = gzip.compress(BODY.ljust(50 * 2**20)), api_on_runner
    assert (await api.request("POST", "/persons", BODY.ljust(2**20))).status == 201

    async def chunks() -> AsyncIterator[bytes]:  # without a length in the head
        for _ in range(2**20 // 2**14 + 1):
            yield b" " * 2**14

    for body, headers in (
        *((value, {}) for value in (BODY.ljust(2**20 + 1), chunks())),
        (bomb, {"Content-Encoding": "gzip"}),
    ):
        response = await api.request("POST", "/persons", body, headers)
        assert (response.status, response.code) == (413, "body_too_large")
    assert len((await api.get("/persons")).data) == 1


async def test_no_client_is_told_to_send_a_body_that_is_too_large(api: Api) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    size = 2**20 + 1
    writer.write(POSTING + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % size)
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b" " * size)  # some clients do not wait, so the body may still follow
        await reader.read()
    writer.close()
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in head.lower()


async def test_the_coding_of_a_body_is_supported_or_refused(api_on_runner: Api) -> None:
    # aiohttp rejects encodings that it knows but has no library for, before the view runs.
    for encoding, statuses in (
        *((text, {400, 415}) for text in ("br", "zstd")),
        *((text, {415}) for text in ("nonsense", "gzip, gzip", "")),
        ("gzip", {201}),
    ):
        sent = {"Content-Encoding": encoding}
        response = await api_on_runner.request("POST", "/persons", gzip.compress(BODY), sent)
        assert response.status in statuses
        if response.status == 415:
            assert response.headers["Accept-Encoding"] == "identity, gzip"
    assert len((await api_on_runner.get("/persons")).data) == 1


GET = b"GET /persons HTTP/1.1\r\n"
MALFORMED = [
    *[b"\r\n\r\nnonsense\r\n\r\n", b"GET\r\n\r\n", b"\0" * 100 + b"\r\n\r\n"],
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the begin of TLS
    b"BREW /persons HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /persons HTTP/9.9\r\n\r\n",
    GET + b"bad header\r\n\r\n",
    GET + b"Host: h\r\nX: " + b"x" * 10_000 + b"\r\n\r\n",
    GET + b"Host: h\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
    *(POSTING + b"Content-Length: %s\r\n\r\n" % length for length in (b"-1", b"x")),
    POSTING + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    POSTING + CLOSE + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    POSTING + b"Transfer-Encoding: gzip, chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
]


async def test_malformed_http_is_refused(api: Api) -> None:
    for request in MALFORMED:
        status, _, _ = await api.exchange(request)
        assert status == 400, request[:40]
    assert (await api.get("/persons")).data == []


ODD_TARGETS = [
    *[b"/%FF", b"/persons/%ED%A0%80", b"/persons#x", b"*", b"/\xff", b"/persons?\xc3\xa9=1"],
    *(
        b"/persons?" + query
        for query in (
            *(b"include=%FF", b"%FF=%FF", b"fields[%00]=x", b"fields[person]=%ED%A0%80"),
            *(b"include=\x80", b"fields[\xed\xa0\x80]=x", b"&&==&", b"%", b"x" * 5_000),
            *(b"include=" + mark.join([b"computers"] * 500) for mark in (b",", b".")),
        )
    ),
]


async def test_an_odd_request_target_gets_an_error_document(api: Api) -> None:
    for method, target in product((b"GET", b"POST", b"OPTIONS"), ODD_TARGETS):
        status, head, body = await api.exchange(
            method + b" " + target + b" HTTP/1.1\r\nHost: h\r\n" + CLOSE + b"\r\n"
        )
        assert status < 500, target
        if status >= 400 and not head.startswith(b"HTTP/1.0"):  # then it is not valid HTTP
            assert b"application/vnd.api+json" in head
            assert json.loads(body.decode())["errors"]


async def test_a_protocol_upgrade_is_ignored(api: Api) -> None:
    for protocol in ("websocket", "h2c", "nonsense"):
        response = await api.get("/persons", Connection="Upgrade", Upgrade=protocol)
        assert response.status == 200


async def test_a_response_has_at_most_100_errors(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "registry")
    await api.person()
    for data in (
        new("person", **{f"x{number}": number for number in range(50_000)}),
        new("person", {"computers": to_many(*map(str, range(2, 20_000)))}),
    ):
        response = await api.patch("/persons/1", data)
        assert (400 <= response.status < 500, len(response.errors)) == (True, 100)
        assert int(response.headers["Content-Length"]) < 100_000
    assert len(caplog.text) < 10_000

"""Every error is an error document, and no request makes the service fail."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import Iterable
from typing import Any

import pytest

from tests.support import Api, Database, to_many


def to_many_computers(ids: Iterable[int]) -> dict[str, Any]:
    return {"computers": to_many(*map(str, ids))}


POSTING = b"POST /persons HTTP/1.1\r\nHost: h\r\nContent-Type: application/vnd.api+json\r\n"
"""The head of a request with a body, without the headers that frame the body."""

PERSON = {"type": "person", "attributes": {"first_name": "Grace", "last_name": "Hopper"}}


async def test_an_error_has_the_request_id_a_pointer_and_a_detail(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "registry")
    response = await api.post("/persons", {**PERSON, "type": "computer"})
    assert response.status == 409
    request = response.headers["X-Request-ID"]
    assert response.document == {
        "errors": [
            {
                "id": request,
                "status": "409",
                "code": "type_conflict",
                "title": "Type conflict",
                "detail": "The type must be `person`, not `computer`.",
                "source": {"pointer": "/data/type"},
            }
        ],
        "jsonapi": {"version": "1.0"},
    }
    assert request in caplog.text


async def test_each_error_of_a_response_has_its_own_id(api: Api) -> None:
    request = (await api.get("/persons?x=1&sort=y&include=z", **{"X-Request-ID": "mine"})).document
    assert [error["id"] for error in request["errors"]] == ["mine", "mine-2", "mine-3"]


async def test_each_request_has_a_different_id(api: Api) -> None:
    ids = {(await api.get("/persons")).headers["X-Request-ID"] for _ in range(3)}
    assert len(ids) == 3


@pytest.mark.parametrize("path", ["/person", "/person/", "/persons//", "/persons/1/x", "//"])
async def test_an_unknown_path_is_not_found(api: Api, path: str) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        status, document = await api.raw(
            f"{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode()
        )
        assert status == 404
        assert document["errors"][0]["code"] == "not_found"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/persons", "GET, HEAD, OPTIONS, POST"),
        ("/computers", "GET, HEAD, OPTIONS, POST"),
        ("/persons/1", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("/computers/1", "DELETE, GET, HEAD, OPTIONS, PATCH"),
    ],
)
async def test_an_unsupported_method_gets_405_with_allow(api: Api, path: str, allowed: str) -> None:
    for method in {"PUT", "DELETE", "TRACE", "POST", "PATCH"} - set(allowed.split(", ")):
        response = await api.request(method, path)
        assert (response.status, response.headers["Allow"]) == (405, allowed)
    response = await api.request("OPTIONS", path)
    assert (response.status, response.headers["Allow"], response.document) == (204, allowed, None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"not json",
        b'{"data": {"type": "person",}}',
        b'{"data": NaN}',
        b'{"data": Infinity}',
        b'{"data": 1e999}',
        b"\xff\xfe",
        b'\xef\xbb\xbf{"data": {}}',
        b'{"data": "\xff"}',
        b'{"data": {"type": "person", "attributes": {"first_name": "\\ud800"}}}',
        b'{"data": {"\\udfff": 1}}',
        b"[" * 100_000,
        b'{"data":' * 50_000,
        b'{"data": {}} trailing',
        b"\0",
    ],
)
async def test_a_body_that_is_not_valid_json_is_rejected(api: Api, body: bytes) -> None:
    await api.person()
    for method, path in (("POST", "/persons"), ("PATCH", "/persons/1")):
        response = await api.request(method, path, body)
        assert (response.status, response.errors) == (400, [(400, "")])
        assert response.document["errors"][0]["source"] == {"pointer": ""}


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        (None, ""),
        ([], ""),
        ("x", ""),
        (5, ""),
        ({}, "/data"),
        ({"data": None}, "/data"),
        ({"data": []}, "/data"),
        ({"data": [PERSON]}, "/data"),
        ({"data": "x"}, "/data"),
        ({"errors": []}, "/data"),
        ({"data": {"attributes": PERSON["attributes"]}}, "/data/type"),
        ({"data": {**PERSON, "type": None}}, "/data/type"),
        ({"data": {**PERSON, "type": ["person"]}}, "/data/type"),
        ({"data": {**PERSON, "relationships": []}}, "/data/relationships"),
    ],
)
async def test_a_document_of_another_structure_is_rejected_with_a_pointer(
    api: Api, document: Any, pointer: str
) -> None:
    for method, path in (("POST", "/persons"), ("PATCH", "/persons/1")):
        response = await api.request(method, path, json.dumps(document).encode())
        assert (response.status, response.errors) == (400, [(400, pointer)])


@pytest.mark.parametrize("attributes", [None, [], ["first_name"], "x", 5, True])
async def test_attributes_that_are_not_an_object_are_rejected(api: Api, attributes: Any) -> None:
    await api.person()
    response = await api.patch("/persons/1", {"type": "person", "attributes": attributes})
    assert (response.status, response.errors) == (400, [(400, "/data/attributes")])


@pytest.mark.parametrize(
    ("method", "path", "data", "expected"),
    [
        (
            *("POST", "/persons?include=x&fields[y]=", {"type": "person"}),
            *[[(400, "fields[y]"), (400, "include"), (422, "/data/attributes/last_name")]],
        ),
        (
            *("PATCH", "/persons/9?page[size]=1", {"type": "person", "attributes": {"x": 1}}),
            *[[(400, "page[size]"), (422, "/data/attributes/x")]],
        ),
        (
            *("PATCH", "/persons/x?x=1", {"type": "computer", "attributes": {"x": 1}}),
            *[[(400, "x"), (409, "/data/type")]],
        ),
        (
            *("DELETE", "/persons/9/relationships/computers?a=1&b=2&a=3", [7]),
            *[[(400, "a"), (400, "b"), (400, "/data/0")]],
        ),
        ("DELETE", "/persons/x?a=1&b=2", None, [(400, "a"), (400, "b")]),
        ("PATCH", "/computers/9/relationships/owner?a=1", [], [(400, "a"), (400, "/data")]),
    ],
)
async def test_errors_of_the_query_string_and_of_the_document_are_reported_together(
    api: Api, method: str, path: str, data: Any, expected: list[tuple[int, str]]
) -> None:
    response = await api.request(method, path, {"data": data})
    assert response.status == 400
    assert set(expected) <= set(response.errors)
    assert [error for error in response.errors if error[0] != 422] == [
        error for error in expected if error[0] != 422
    ]


async def test_a_body_that_cannot_be_read_is_reported_by_itself(api: Api) -> None:
    response = await api.request("POST", "/persons?x=1", b"{}", {"Content-Type": "text/plain"})
    assert (response.status, response.errors) == (415, [(415, "")])


async def test_a_body_larger_than_a_mebibyte_is_rejected(api: Api) -> None:
    def padded(size: int) -> bytes:
        body = json.dumps({"data": PERSON}).encode()
        return body + b" " * (size - len(body))

    assert (await api.request("POST", "/persons", padded(2**20))).status == 201
    response = await api.request("POST", "/persons", padded(2**20 + 1))
    assert (response.status, response.document["errors"][0]["code"]) == (413, "body_too_large")
    bomb = gzip.compress(padded(50 * 2**20))
    response = await api.request("POST", "/persons", bomb, headers={"Content-Encoding": "gzip"})
    assert response.status == 413
    assert len((await api.get("/persons")).data) == 1


async def test_a_compressed_body_is_accepted(api: Api) -> None:
    body = gzip.compress(json.dumps({"data": PERSON}).encode())
    response = await api.request("POST", "/persons", body, headers={"Content-Encoding": "gzip"})
    assert response.status == 201


@pytest.mark.parametrize("encoding", ["br", "zstd", "nonsense", "gzip, gzip", ""])
async def test_a_body_with_an_unsupported_encoding_is_rejected(api: Api, encoding: str) -> None:
    body = json.dumps({"data": PERSON}).encode()
    response = await api.request("POST", "/persons", body, headers={"Content-Encoding": encoding})
    # aiohttp rejects encodings that it knows but has no library for, before the view runs.
    assert response.status in ({400, 415} if encoding in {"br", "zstd"} else {415})
    assert (await api.get("/persons")).data == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_body_that_is_not_encoded_as_declared_is_rejected(
    api: Api, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = await api.request(
        "POST", "/persons", b"{not encoded", headers={"Content-Encoding": encoding}
    )
    assert response.status == 400
    assert "Traceback" not in caplog.text


async def test_a_body_that_does_not_arrive_in_time_gets_408(api: Api) -> None:
    status, document = await api.raw(POSTING + b"Content-Length: 100\r\nConnection: close\r\n\r\n{")
    assert (status, document["errors"][0]["code"]) == (408, "request_timeout")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\r\n\r\nnonsense\r\n\r\n",
        b"GET\r\n\r\n",
        b"BREW /persons HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /persons HTTP/9.9\r\n\r\n",
        b"GET /persons HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET /persons HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 10_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /persons HTTP/1.1\r\nHost: h\r\n" + b"X: y\r\n" * 500 + b"\r\n",
        b"POST /persons HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST /persons HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
        b"POST /persons HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0" * 100 + b"\r\n\r\n",
    ],
)
async def test_malformed_http_gets_an_error_document(api: Api, request_bytes: bytes) -> None:
    status, document = await api.raw(request_bytes)
    assert status == 400
    assert document["errors"][0]["code"] == "malformed_request"
    assert (await api.get("/persons")).status == 200


async def test_broken_chunked_encoding_is_rejected_at_once(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(POSTING + b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
    await reader.readuntil(b"100 Continue\r\n\r\n")  # it reads the body now
    writer.write(b"zz\r\n")
    received = await asyncio.wait_for(reader.read(), timeout=10)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1") == 1
    writer.close()
    assert "Traceback" not in caplog.text


async def test_a_client_that_disconnects_while_sending_is_not_logged_as_an_error(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(POSTING + b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n{")
    await reader.readuntil(b"100 Continue\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    assert (await api.get("/persons")).data == []
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_body_declared_too_large_is_rejected_before_it_arrives(api: Api) -> None:
    status, document = await api.raw(
        POSTING + b"Content-Length: 10000000000\r\nConnection: close\r\n\r\n{"
    )
    assert (status, document["errors"][0]["code"]) == (413, "body_too_large")


async def test_a_client_that_expects_100_continue_is_not_told_to_send_a_body_that_is_too_large(
    api: Api,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    size = 2**20 + 1
    writer.write(POSTING + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % size)
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b" " * size)  # some clients do not wait, so the body may still follow
        await reader.read()
    writer.close()
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in head.lower()


async def test_a_client_that_expects_100_continue_is_told_to_send_the_body(api: Api) -> None:
    body = json.dumps({"data": PERSON}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(POSTING + b"Connection: close\r\nExpect: 100-continue\r\n")
    writer.write(b"Content-Length: %d\r\n\r\n" % len(body))
    async with asyncio.timeout(10):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await reader.read()).startswith(b"HTTP/1.1 201")
    writer.close()


async def test_a_body_in_a_transfer_coding_beside_chunked_is_rejected(api: Api) -> None:
    body = json.dumps({"data": PERSON}).encode()
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    status, document = await api.raw(POSTING + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunks)
    assert (status, document["errors"][0]["code"]) == (400, "malformed_request")


async def test_a_malformed_chunked_body_is_rejected(api: Api) -> None:
    status, document = await api.raw(
        POSTING + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"
    )
    assert (status, document["errors"][0]["code"]) == (400, "malformed_request")


@pytest.mark.parametrize(
    "target",
    [
        "/persons?include=%FF",
        "/persons?%FF=%FF",
        "/persons?fields[%00]=x",
        "/persons?fields[person]=%ED%A0%80",
        "/persons?%ED%A0%80",
        "/persons?&&==&",
        "/persons?" + "x" * 5_000,
        "/persons?include=" + ",".join(["computers"] * 500),
        "/persons?include=" + ".".join(["computers"] * 500),
        "/persons?%",
        "/persons?filter[$where]=1",
        "/persons?page[size]=1",
        "/%FF",
        "/%ED%A0%80",
        "/persons/%ED%A0%80",
        "/persons#x",
        "*",
    ],
)
async def test_odd_request_targets_do_not_fail(api: Api, target: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        status, _, _ = await api.exchange(
            f"{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode()
        )
        assert status < 500


@pytest.mark.parametrize("raw", [b"\xff", b"\xed\xa0\x80", b"\xc3\xa9", b"\x80"])
async def test_non_ascii_request_targets_do_not_fail(api: Api, raw: bytes) -> None:
    for target in (
        b"/persons?include=" + raw,
        b"/persons?" + raw + b"=1",
        b"/persons?fields[" + raw + b"]=1",
        b"/" + raw,
        b"/persons/" + raw,
        b"/persons?include=&" + raw,
    ):
        status, document = await api.raw(
            b"GET " + target + b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        )
        assert status in {400, 404}
        json.dumps(document).encode()


async def test_an_unknown_expectation_is_rejected(api: Api) -> None:
    for path in ("/persons", "/nothing"):
        response = await api.get(path, Expect="a miracle")
        assert (response.status, response.document["errors"][0]["code"]) == (
            417,
            "expectation_failed",
        )


@pytest.mark.parametrize("protocol", ["websocket", "h2c", "nonsense"])
async def test_a_protocol_upgrade_is_ignored(api: Api, protocol: str) -> None:
    response = await api.get("/persons", Connection="Upgrade", Upgrade=protocol)
    assert response.status == 200


@pytest.mark.parametrize(
    "data",
    [
        {"type": "person", "attributes": {f"x{number}": number for number in range(90_000)}},
        {"type": "person", "relationships": {"computers": {"data": [0] * 300_000}}},
        {"type": "person", "relationships": {"computers": {"data": [{}] * 200_000}}},
        {"type": "person", "relationships": to_many_computers(range(2, 20_000))},
        {"type": "x" * 900_000},
    ],
    ids=["attributes", "numbers", "objects", "identifiers", "type"],
)
async def test_a_response_has_at_most_100_errors(
    api: Api, caplog: pytest.LogCaptureFixture, data: Any
) -> None:
    caplog.set_level(logging.INFO, "registry")
    await api.person()
    response = await api.patch("/persons/1", data)
    assert 400 <= response.status < 500
    assert len(response.errors) in {1, 100}
    assert int(response.headers["Content-Length"]) < 100_000
    assert len(caplog.text) < 10_000


async def test_mongodb_operators_in_a_request_are_not_executed(
    api: Api, database: Database
) -> None:
    await api.person()
    for value in ({"$set": {"x": 1}}, {"$where": "1"}, ["$first_name"]):
        response = await api.patch("/persons/1", {"type": "person", "attributes": {"email": value}})
        assert response.status == 422
    for name in ("$set", "_id", "version", "password", "first_name.x", "person"):
        response = await api.patch("/persons/1", {"type": "person", "attributes": {name: "x"}})
        assert (response.status, response.errors) == (422, [(422, f"/data/attributes/{name}")])
    assert (await api.get("/persons/1")).data["attributes"]["full_name"] == "Grace Hopper"
    stored = await database.persons.find_one({"_id": 1})
    assert stored is not None
    assert stored.keys() == {
        "_id",
        "first_name",
        "last_name",
        "full_name",
        "email",
        "password",
        "created_at",
        "updated_at",
        "version",
    }


async def test_an_internal_error_does_not_reveal_its_traceback(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await api.computer()
    monkeypatch.setattr("registry.http.views.document_view.resource_objects", None)
    response = await api.get("/computers/1")
    assert (response.status, response.document["errors"][0]["code"]) == (500, "internal_error")
    assert response.headers["X-Request-ID"] in caplog.text
    assert "Traceback" in caplog.text

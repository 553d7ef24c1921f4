"""The compression of responses, and how it goes together with the rest of HTTP."""

import asyncio
import gzip
import json
import zlib
from dataclasses import replace
from itertools import count, product

import pytest

from registry.http.sending import MIN_BYTES
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import (
    ATOMIC,
    COMPUTER,
    MEDIA_TYPE,
    OPERATIONS,
    VARY,
    Api,
    Raw,
    add,
    check_document,
    new,
    to_many,
)

LONG = "x" * 250

DOCUMENTS = (
    "/persons/1",
    "/persons?page[size]=3",
    "/persons?page[size]=1000&include=computers",
    "/persons/1/relationships/computers",
    "/persons",
    "/computers?include=owner",
)
"""A path of every kind whose response is large: a resource, pages, linkage, and streams."""


@pytest.fixture
async def fleet(api: Api) -> Api:
    """A service with 30 computers, which a person with long names owns."""
    await api.operate(*[add(COMPUTER)] * 30)
    linked = {"computers": to_many(*map(str, range(1, 31)))}
    await api.create(new("person", linked, first_name=LONG, last_name=LONG))
    return api


async def test_large_documents_are_compressed_if_the_client_accepts_gzip(fleet: Api) -> None:
    for path in DOCUMENTS:
        plain = await fleet.fetch(path)
        assert "Content-Encoding" not in plain.headers, path
        compressed = await fleet.fetch(path, Accept_Encoding="gzip, deflate, br")
        assert compressed.headers["Content-Encoding"] == "gzip", path
        assert len(compressed.body) < len(plain.body) / 2, path
        assert json.loads(compressed.text) == json.loads(plain.text), path
        check_document(json.loads(compressed.text))
        head = await fleet.fetch(path, "HEAD", Accept_Encoding="gzip")
        assert (head.status, head.body) == (200, b"")
        own = {"Date", "X-Request-ID", "Transfer-Encoding"}
        assert [(name, header) for name, header in head.headers.items() if name not in own] == [
            (name, header) for name, header in compressed.headers.items() if name not in own
        ]
        for response in (plain, compressed):
            assert response.headers["Vary"] == VARY
            length = int(response.headers.get("Content-Length", len(response.body)))
            assert length == len(response.body)


async def test_small_responses_are_not_compressed(
    api: Api, serve: Serve, settings: Settings
) -> None:
    await api.person()
    for path in ("/persons/1", "/persons", "/computers", "/health/live", "/nothing"):
        response = await api.fetch(path, Accept_Encoding="gzip")
        assert len(response.body) < MIN_BYTES
        assert "Content-Encoding" not in response.headers
    # The included resources are the second part of a stream, which counts as a whole.
    for _ in range(15):
        await api.computer(owner="1")
    path = "/persons?include=computers"
    response = await api.fetch(path, Accept_Encoding="gzip")
    assert response.headers["Content-Encoding"] == "gzip"
    assert len(json.loads(response.text)["included"]) == 15
    plain = await serve(settings=replace(settings, compression="off"))
    for other in (path, "/persons/1?include=computers", "/api/swagger/openapi.json", "/metrics"):
        response = await plain.fetch(other, Accept_Encoding="gzip")
        assert "Content-Encoding" not in response.headers, other
        assert len(response.body) > MIN_BYTES


async def test_every_kind_of_response_is_compressed(fleet: Api) -> None:
    operations = {OPERATIONS: [add(new("computer", serial=LONG))] * 5}
    invalid = {"data": new("person", **{f"x{number}": 1 for number in range(20)})}
    for path, method, body, content_type, status in (
        ("/operations", "POST", operations, ATOMIC, 200),
        ("/persons", "POST", invalid, MEDIA_TYPE, 422),
        ("/api/swagger/openapi.json", "GET", None, MEDIA_TYPE, 200),
        ("/api/swagger/swagger_ui_static/swagger-ui-bundle.js", "GET", None, MEDIA_TYPE, 200),
        ("/metrics", "GET", None, MEDIA_TYPE, 200),
    ):
        sent = {"Content_Type": content_type}
        response = await fleet.fetch(path, method, body, **sent, Accept_Encoding="gzip")
        assert (response.status, response.headers["Content-Encoding"]) == (status, "gzip"), path
        plain = await fleet.fetch(path, method, body, **sent)
        assert "Content-Encoding" not in plain.headers
        assert len(response.body) < len(plain.body) / 2
        if path.startswith("/api"):
            assert response.text == plain.text
            policies = [shown.headers["Content-Security-Policy"] for shown in (response, plain)]
            assert policies[0] == policies[1]


async def test_a_compressed_response_has_a_strong_tag_of_its_own(fleet: Api) -> None:
    """RFC 9110, 8.8.3.3: content codings are different representations."""
    for path in DOCUMENTS[:3]:
        plain = (await fleet.fetch(path)).headers["ETag"]
        compressed = f'{plain[:-1]}-gzip"'
        for coding, known, status in (
            *(("gzip", known, 304) for known in (compressed, f"W/{compressed}")),
            *[("gzip", plain, 200), ("identity", compressed, 200), ("identity", plain, 304)],
        ):
            sent = {"Accept_Encoding": coding, "If_None_Match": known}
            response = await fleet.fetch(path, **sent)
            assert response.status == status, (path, coding, known)
            assert response.headers["ETag"] == (compressed if coding == "gzip" else plain)
            if status == 304:
                assert not {"Content-Encoding", "Content-Length"} & response.headers.keys()
                assert (response.headers["Vary"], response.body) == (VARY, b"")


async def test_a_tag_of_either_coding_protects_from_lost_updates(fleet: Api) -> None:
    numbers = count()

    async def change(tag: str, accepted: str) -> Raw:
        document = {"data": new("person", email=f"grace.{next(numbers)}@example.com")}
        sent = {"Content_Type": MEDIA_TYPE, "If_Match": tag, "Accept_Encoding": accepted}
        return await fleet.fetch("/persons/1", "PATCH", document, **sent)

    for accepted, coding in product(("gzip", "identity"), repeat=2):
        read = await fleet.fetch("/persons/1", Accept_Encoding=coding)
        written = await change(read.headers["ETag"], accepted)
        assert written.status == 200
        assert written.headers["ETag"].endswith('-gzip"') is (accepted == "gzip")
        assert (await change(read.headers["ETag"], accepted)).status == 412
        assert (await change(written.headers["ETag"], accepted)).status == 200
    tag = (await fleet.fetch("/persons/1")).headers["ETag"]
    for forged in (f'{tag[:-1]}-br"', f'{tag[:-1]}-gzip-gzip"', f'W/{tag[:-1]}-gzip"'):
        assert (await change(forged, "gzip")).status == 412


async def test_the_parts_of_a_stream_are_sent_as_soon_as_they_are_ready(api: Api) -> None:
    """A chunk of 1,000 resources is complete before the next is read."""
    await api.operate(*[add(COMPUTER)] * 1_000)
    await api.computer()
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(b"GET /computers HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    size = int(await reader.readline(), 16)
    first = zlib.decompressobj(31).decompress(await reader.readexactly(size))
    assert first.count(b'"type":"computer"') == 1_000
    writer.close()
    # A response of HTTP/1.0 ends with the connection.
    status, head, body = await api.exchange(
        b"GET /computers HTTP/1.0\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    assert (status, b"chunked" in head) == (200, False)
    assert json.loads(gzip.decompress(body))["meta"] == {"count": 1_001}

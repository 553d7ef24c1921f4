"""The compression of responses, and how it goes together with the rest of HTTP."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from dataclasses import dataclass, replace
from itertools import count, product
from typing import Any

import pytest
from aiohttp import ClientSession

from registry.http.compression import MIN_BYTES
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import ATOMIC, MEDIA_TYPE, VARY, Api, check_document

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


@dataclass(frozen=True)
class Raw:
    """A response without its transfer coding. headers: by names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> bytes:
        """The body without its content coding."""
        return gzip.decompress(self.body) if "content-encoding" in self.headers else self.body


async def fetch(api: Api, path: str, method: str = "GET", body: Any = None, **headers: str) -> Raw:
    """Send a request with these headers and no others of a client."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = None if body is None else json.dumps(body)
    async with (
        ClientSession(auto_decompress=False, skip_auto_headers=["Accept-Encoding"]) as session,
        session.request(method, f"{api.origin}{path}", data=sent, headers=named) as response,
    ):
        received = {name.lower(): value for name, value in response.headers.items()}
        return Raw(response.status, received, await response.read())


def same(first: bytes, second: bytes) -> bool:
    """Return whether two documents are equal."""
    return bool(json.loads(first) == json.loads(second))


async def add_computers(api: Api, number: int) -> None:
    operations = [
        {"op": "add", "data": {"type": "computer", "attributes": {"serial": f"SN-{number}"}}}
        for number in range(number)
    ]
    assert (await api.operate(*operations)).status == 200


@pytest.fixture
async def fleet(api: Api) -> Api:
    """A service with 30 computers, which a person with long names owns."""
    await add_computers(api, 30)
    names = {"first_name": LONG, "last_name": LONG}
    linked = {"data": [{"type": "computer", "id": str(number)} for number in range(1, 31)]}
    created = {"type": "person", "attributes": names, "relationships": {"computers": linked}}
    await api.post("/persons", created)
    return api


async def test_large_documents_are_compressed_if_the_client_accepts_gzip(fleet: Api) -> None:
    for path in DOCUMENTS:
        plain = await fetch(fleet, path)
        assert "content-encoding" not in plain.headers, path
        compressed = await fetch(fleet, path, Accept_Encoding="gzip, deflate, br")
        assert compressed.headers["content-encoding"] == "gzip", path
        assert len(compressed.body) < len(plain.body) / 2, path
        assert same(compressed.content, plain.content), path
        check_document(json.loads(compressed.content))
        for response in (plain, compressed):
            assert response.headers["vary"] == VARY
            if "content-length" in response.headers:
                assert int(response.headers["content-length"]) == len(response.body)


async def test_head_has_the_headers_of_get(fleet: Api) -> None:
    for path in DOCUMENTS:
        get = await fetch(fleet, path, Accept_Encoding="gzip")
        head = await fetch(fleet, path, "HEAD", Accept_Encoding="gzip")
        assert (head.status, head.body) == (200, b"")
        for changing in ("date", "x-request-id", "transfer-encoding"):
            for response in (get, head):
                response.headers.pop(changing, None)
        assert head.headers == get.headers, path


async def test_small_responses_are_not_compressed(api: Api) -> None:
    await api.person()
    for path in ("/persons/1", "/persons", "/computers", "/", "/health/live", "/nothing"):
        response = await fetch(api, path, Accept_Encoding="gzip")
        assert len(response.body) < MIN_BYTES
        assert "content-encoding" not in response.headers
        assert same(response.content, (await fetch(api, path)).content) or path == "/nothing"


async def test_the_limit_counts_the_whole_body_of_a_stream(api: Api) -> None:
    """The included resources are the second part of it."""
    await api.person()
    for number in range(15):
        await api.computer(f"SN-{number}", owner="1")
    response = await fetch(api, "/persons?include=computers", Accept_Encoding="gzip")
    assert response.headers["content-encoding"] == "gzip"
    assert len(json.loads(response.content)["included"]) == 15


async def test_every_kind_of_response_is_compressed(fleet: Api) -> None:
    operations = {
        "atomic:operations": [
            {"op": "add", "data": {"type": "computer", "attributes": {"serial": LONG}}}
            for _ in range(5)
        ]
    }
    invalid = {"data": {"type": "person", "attributes": dict.fromkeys(map(str, range(20)), 1)}}
    for path, method, body, content_type, status in (
        ("/operations", "POST", operations, ATOMIC, 200),
        ("/persons", "POST", invalid, MEDIA_TYPE, 422),
        ("/api/swagger/openapi.json", "GET", None, MEDIA_TYPE, 200),
        ("/api/swagger/swagger_ui_static/swagger-ui-bundle.js", "GET", None, MEDIA_TYPE, 200),
        ("/metrics", "GET", None, MEDIA_TYPE, 200),
    ):
        sent = {"Content_Type": content_type}
        response = await fetch(fleet, path, method, body, **sent, Accept_Encoding="gzip")
        assert (response.status, response.headers["content-encoding"]) == (status, "gzip"), path
        plain = await fetch(fleet, path, method, body, **sent)
        assert "content-encoding" not in plain.headers
        assert len(response.body) < len(plain.body) / 2
        if path.startswith("/api"):
            assert response.content == plain.content
            assert (
                response.headers["content-security-policy"]
                == (plain.headers["content-security-policy"])
            )


async def test_compression_can_be_turned_off(serve: Serve, settings: Settings) -> None:
    api = await serve(settings=replace(settings, compression="off"))
    await api.person(LONG, LONG)
    for path in ("/persons/1", "/persons", "/api/swagger/openapi.json", "/metrics"):
        response = await fetch(api, path, Accept_Encoding="gzip")
        assert "content-encoding" not in response.headers, path
        assert len(response.body) > MIN_BYTES


async def test_the_tag_of_a_compressed_response_is_strong_and_another_one(fleet: Api) -> None:
    """RFC 9110, 8.8.3.3: content codings are different representations."""
    for path in DOCUMENTS[:4]:
        plain = (await fetch(fleet, path)).headers["etag"]
        compressed = (await fetch(fleet, path, Accept_Encoding="gzip")).headers["etag"]
        assert compressed == f'{plain[:-1]}-gzip"'
        for coding, known, status in (
            ("gzip", compressed, 304),
            ("gzip", f"W/{compressed}", 304),
            ("gzip", plain, 200),
            ("identity", compressed, 200),
            ("identity", plain, 304),
        ):
            sent = {"Accept_Encoding": coding, "If_None_Match": known}
            response = await fetch(fleet, path, **sent)
            assert response.status == status, (path, coding, known)
            assert response.headers["etag"] == (compressed if coding == "gzip" else plain)
            if status == 304:
                assert not {"content-encoding", "content-length"} & response.headers.keys()
                assert (response.headers["vary"], response.body) == (VARY, b"")


async def test_a_tag_of_either_coding_protects_from_lost_updates(fleet: Api) -> None:
    numbers = count()

    async def change(tag: str, accepted: str) -> Raw:
        attributes = {"email": f"grace.{next(numbers)}@example.com"}
        document = {"data": {"type": "person", "id": "1", "attributes": attributes}}
        sent = {"Content_Type": MEDIA_TYPE, "If_Match": tag, "Accept_Encoding": accepted}
        return await fetch(fleet, "/persons/1", "PATCH", document, **sent)

    for accepted, coding in product(("gzip", "identity"), repeat=2):
        read = await fetch(fleet, "/persons/1", Accept_Encoding=coding)
        written = await change(read.headers["etag"], accepted)
        assert written.status == 200
        assert written.headers["etag"].endswith('-gzip"') is (accepted == "gzip")
        assert (await change(read.headers["etag"], accepted)).status == 412
        assert (await change(written.headers["etag"], accepted)).status == 200
    tag = (await fetch(fleet, "/persons/1")).headers["etag"]
    for forged in (f'{tag[:-1]}-br"', f'{tag[:-1]}-gzip-gzip"', f'W/{tag[:-1]}-gzip"'):
        assert (await change(forged, "gzip")).status == 412


async def test_the_parts_of_a_stream_are_sent_as_soon_as_they_are_ready(api: Api) -> None:
    """A chunk of 1,000 resources is complete before the next is read."""
    await add_computers(api, 1_000)
    await add_computers(api, 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(b"GET /computers HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    size = int(await reader.readline(), 16)
    first = zlib.decompressobj(31).decompress(await reader.readexactly(size))
    assert first.count(b'"type":"computer"') == 1_000
    writer.close()


async def test_a_compressed_response_of_http_1_0_ends_with_the_connection(fleet: Api) -> None:
    status, head, body = await fleet.exchange(
        b"GET /computers HTTP/1.0\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    assert (status, b"chunked" in head) == (200, False)
    assert json.loads(gzip.decompress(body))["meta"] == {"count": 30}

"""The content codings of bodies."""

import gzip

import pytest
from aiohttp import web

from registry.http.request_body import read_body
from tests.http.conftest import PATIENT_LIMITS, Start
from tests.support import MEDIA_TYPE

BODY = b'{"data": null}'
GZIP = gzip.compress(BODY, mtime=0)
LARGE = gzip.compress(bytes(PATIENT_LIMITS.body_bytes))


async def status(start: Start, sent: bytes, encoding: str) -> int:
    """Return the status of a request, whose body is expected to be BODY."""

    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=200 if await read_body(request) == BODY else 202)

    headers = {"Content-Type": MEDIA_TYPE, "Content-Encoding": encoding}
    async with (await start(handle)).post("/", data=sent, headers=headers) as response:
        return response.status


@pytest.mark.parametrize(("encoding", "sent"), [("identity", BODY), (" GZip ", GZIP)])
async def test_a_body_is_returned_without_its_coding(
    start: Start, encoding: str, sent: bytes
) -> None:
    assert await status(start, sent, encoding) == 200


@pytest.mark.parametrize("sent", [b"", BODY, GZIP[:-1], GZIP + b"x", GZIP + GZIP])
async def test_a_body_that_is_not_encoded_as_declared_is_refused(start: Start, sent: bytes) -> None:
    assert await status(start, sent, "gzip") == 400


async def test_a_decoded_body_has_a_limit(start: Start) -> None:
    assert await status(start, LARGE, "gzip") == 202
    assert await status(start, gzip.compress(bytes(PATIENT_LIMITS.body_bytes + 1)), "gzip") == 413

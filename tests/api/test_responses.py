"""How answers leave: one head that says what the connection and the body are."""

from __future__ import annotations

import asyncio
from email.utils import parsedate_to_datetime

import pytest

from tests.support import Api

CLOSE = "Connection: close\r\n"

Head = dict[str, str]
"""Headers by their names in small letters."""


def get(number: int, headers: str = "", *, method: str = "GET", version: str = "1.1") -> bytes:
    return f"{method} /persons/{number} HTTP/{version}\r\nHost: h\r\n{headers}\r\n".encode()


def parsed(received: bytes) -> tuple[str, Head, bytes]:
    head, _, rest = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    pairs = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
    assert len(dict(pairs)) == len(pairs), "a header is there twice"
    return first, dict(pairs), rest


async def exchange(api: Api, requests: bytes) -> bytes:
    """Return all that the service sends until it closes the connection."""
    _, head, rest = await api.exchange(requests)
    return head + b"\r\n\r\n" + rest


@pytest.mark.parametrize(
    ("version", "sent", "told"),
    [
        ("1.1", "", None),
        ("1.1", CLOSE, "close"),
        ("1.0", "", None),
        ("1.0", "Connection: keep-alive\r\n", "keep-alive"),
    ],
)
async def test_an_answer_says_what_becomes_of_the_connection(
    api: Api, version: str, sent: str, told: str | None
) -> None:
    await api.person()
    kept = told == "keep-alive" or (version, told) == ("1.1", None)
    following = get(1, CLOSE, version=version) if kept else b""
    first, head, rest = parsed(await exchange(api, get(1, sent, version=version) + following))
    assert first == f"HTTP/{version} 200 OK"
    assert head.get("connection") == told
    body, others = rest[: int(head["content-length"])], rest[int(head["content-length"]) :]
    assert body.endswith(b'"links":{"self":"/persons/1"}}')
    assert others.startswith(b"HTTP/") if kept else not others
    assert len(head["x-request-id"]) == 32
    assert head["vary"] == "Accept"
    assert head["server"]
    parsedate_to_datetime(head["date"])


async def test_requests_that_do_not_wait_for_answers_get_them_in_order(api: Api) -> None:
    for _ in range(3):
        await api.person()
    rest = await exchange(api, get(2) + get(3) + get(9) + get(1, CLOSE))
    found = []
    while rest:
        first, head, rest = parsed(rest)
        length = int(head["content-length"])
        found.append((first.split()[1], head["x-request-id"], rest[:length]))
        rest = rest[length:]
    assert [status for status, *_ in found] == ["200", "200", "404", "200"]
    assert len({identity for _, identity, _ in found}) == 4
    for number, (_, _, body) in zip((2, 3, 1), (found[0], found[1], found[3]), strict=True):
        assert f'"id":"{number}"'.encode() in body


async def test_an_answer_without_a_body_has_none(api: Api) -> None:
    await api.person()
    whole = parsed(await exchange(api, get(1, CLOSE)))
    head = parsed(await exchange(api, get(1, CLOSE, method="HEAD")))
    assert (head[0], head[2]) == (whole[0], b"")
    for name in ("content-length", "content-type", "etag"):
        assert head[1][name] == whole[1][name]
    known = f"If-None-Match: {whole[1]['etag']}\r\n"
    first, lines, rest = parsed(await exchange(api, get(1, known + CLOSE)))
    assert (first, rest) == ("HTTP/1.1 304 Not Modified", b"")
    assert lines["etag"] == whole[1]["etag"]
    assert not {"content-length", "content-type"} & lines.keys()


async def test_a_client_that_reads_nothing_stops_nobody(api: Api) -> None:
    await api.person()
    server = api.client.server
    _, deaf = await asyncio.open_connection(server.host, server.port)
    deaf.write(get(1) * 20_000)
    async with asyncio.timeout(10):
        for _ in range(20):
            assert (await api.get("/persons/1")).status == 200
    deaf.transport.abort()
    assert (await api.get("/persons/1")).status == 200


async def test_a_defect_that_is_a_timeout_is_told_as_any_other(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def overdue(*_: object) -> None:
        raise TimeoutError("deep inside")

    monkeypatch.setattr("registry.storage.repository.Repository.get", overdue)
    answer = await api.get("/persons/1")
    assert (answer.status, answer.document["errors"][0]["code"]) == (500, "internal_error")
    assert "deep inside" in caplog.text

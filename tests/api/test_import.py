"""Files of rows, sent to a collection: what is stored, and the report."""

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from time import process_time
from typing import Any

import pytest

from registry.protocol import CSV_TYPE, NDJSON_TYPE
from registry.settings import Settings
from registry.storage import Tokens
from registry.storage.writes.row_batches import RowUnit
from registry.storage.writes.write_requests import WriteRequest
from tests.conftest import HURRIED, Grant, Header, Serve
from tests.support import Api, Database, bulkheads
from tests.waiting import eventually

CSV = {"Content-Type": CSV_TYPE}
DRY = {"Prefer": "tx=rollback"}
HEADER = "serial,owner.email,owner.first_name,owner.last_name\n"
ADA = "ada@x.org,Ada,King"
BY_SERIAL = "/computers?rows[key]=serial"


async def post(
    api: Api, path: str, file: str | bytes, charset: str = "", **headers: str
) -> tuple[int, Any]:
    """Send a file; return the status, and the error document or the lines of the report."""
    body = file if isinstance(file, bytes) else file.encode()
    content_type = f"{CSV_TYPE}; charset={charset}" if charset else CSV_TYPE
    sent = {"Content-Type": content_type, **headers}
    async with api.client.request("POST", path, data=body, headers=sent) as response:
        text = await response.read()
        if response.status != 200:
            return response.status, json.loads(text)
        assert response.headers["Content-Type"] == NDJSON_TYPE
        return 200, [json.loads(line) for line in text.splitlines()]


async def report(api: Api, path: str, file: str | bytes, **headers: str) -> dict[str, Any]:
    """Send a file that is imported; return the totals, without what is zero."""
    status, lines = await post(api, path, file, **headers)
    assert status == 200, lines
    totals = lines[-1]["meta"]
    assert totals.pop("complete") is True
    return {name: value for name, value in totals.items() if value}


async def count(api: Api) -> int:
    """Return how many computers are stored."""
    document = (await api.get("/computers?page[number]=1&page[size]=1")).document
    total: int = document["meta"]["total"]
    return total


async def serials(api: Api) -> list[tuple[str, str | None]]:
    """Return the serial number of each computer, with the address of its owner."""
    document = (await api.get("/computers?include=owner&sort=serial")).document
    emails = {each["id"]: each["attributes"]["email"] for each in document["included"]}
    return [
        (
            each["attributes"]["serial"],
            owner and emails[owner["id"]],
        )
        for each in document["data"]
        for owner in [each["relationships"]["owner"]["data"]]
    ]


async def test_rows_create_what_is_missing_and_change_what_differs(api: Api) -> None:
    file = f"{HEADER}A,{ADA}\nB,{ADA}\nC,,,\n"
    created = {"rows": 3, "created": {"person": 1, "computer": 3}}
    assert await report(api, BY_SERIAL, file, **DRY) == created
    assert await serials(api) == []
    assert await report(api, BY_SERIAL, file) == created
    assert await serials(api) == [("A", "ada@x.org"), ("B", "ada@x.org"), ("C", None)]
    assert await report(api, BY_SERIAL, file) == {"rows": 3, "unchanged": {"computer": 3}}
    moved = f"{HEADER}C,{ADA}\nB,,,\n"
    assert await report(api, BY_SERIAL, moved) == {
        "rows": 2,
        "updated": {"computer": 1},
        "unchanged": {"computer": 1},
    }
    assert await report(api, f"{BY_SERIAL}&rows[replace]=true", moved) == {
        "rows": 2,
        "updated": {"computer": 1},
        "unchanged": {"computer": 1},
    }
    assert await serials(api) == [("A", "ada@x.org"), ("B", None), ("C", "ada@x.org")]


async def test_the_name_of_a_person_finds_an_owner(api: Api) -> None:
    await api.person("Ada", "King", email="ada@x.org")
    await report(api, BY_SERIAL, "serial;owner.full_name\nA;Ada King\n")
    assert await serials(api) == [("A", "ada@x.org")]


@pytest.mark.parametrize("key", ["id", "email"])
async def test_a_row_whose_chosen_key_is_empty_is_found_by_all_its_values(
    api: Api, key: str
) -> None:
    await api.person("Ada", "King")
    file = "id,email,first_name,last_name\n,,Ada,King\n,,Bob,Byron\n,,Ada,King\n"
    path = f"/persons?rows[key]={key}"
    for effect in ("created", "unchanged"):
        _, lines = await post(api, path, file)
        [error] = lines[0]["errors"]
        assert error["source"]["line"] == 4
        assert error["detail"].startswith("The row repeats line 2")
        assert lines[-1]["meta"][effect]["person"] == (2 if effect == "unchanged" else 1)
    owner = "serial,owner.id,owner.first_name,owner.last_name\nA,,Ada,King\n"
    linked = await report(api, "/computers?rows[key]=serial&rows[key]=owner.id", owner)
    assert linked == {"rows": 1, "created": {"computer": 1}}


@pytest.mark.parametrize("replaces", ["false", "true"])
async def test_another_unique_value_finds_the_resource_if_the_first_is_empty(
    serve: Serve, settings: Settings, replaces: str
) -> None:
    api = await serve(settings=replace(settings, unique=("person.email", "person.first_name")))
    await api.person("Ada", "King")
    file = "email,first_name,last_name\n,Ada,Byron\n"
    totals = await report(api, f"/persons?rows[replace]={replaces}", file)
    assert totals == {"rows": 1, "updated": {"person": 1}}


@pytest.mark.parametrize("others", [0, 1])
async def test_what_earlier_rows_change_does_not_hide_others_that_match(
    api: Api, others: int
) -> None:
    spellings = ["ada@x.org", "ADA@X.ORG", "ada@x.org", "ada@x.org", *["ada@x.org"] * others]
    ids = [await api.person("Ada", "King", email=email) for email in spellings]
    ids += [await api.person("Ada", "King", email="ada@x.org")]
    changed = "".join(f"{id_},p{id_}@x.org\n" for id_ in ids[: len(ids) - 1 - others])
    _, lines = await post(api, "/persons", f"id,email\n{changed},ada@x.org\n")
    totals = lines[-1]["meta"]
    if others:
        assert "several persons match, such as 5, 6." in lines[0]["errors"][0]["detail"]
    else:
        assert totals["unchanged"] == {"person": 1}
    assert (totals["created"], totals["updated"]) == ({}, {"person": 4})


async def test_what_earlier_batches_of_a_dry_run_change_does_not_hide_others(api: Api) -> None:
    for _ in range(5):
        await api.person("Ada", "King", email="ada@x.org")
    changed = "".join(f"{id_},p{id_}@x.org\n" for id_ in range(1, 5))
    fill = "".join(f",{n}@x.org\n" for n in range(300))  # more than a batch has
    _, lines = await post(api, "/persons", f"id,email\n{changed}{fill},ada@x.org\n", **DRY)
    assert lines[-1]["meta"]["updated"] == {"person": 4}
    assert lines[-1]["meta"]["unchanged"] == {"person": 1}


@pytest.mark.parametrize("key", ["email", "first_name,last_name"])
async def test_three_of_the_resources_that_match_are_named(api: Api, key: str) -> None:
    for email in ["ada@x.org"] * 3 + ["ADA@X.ORG"] * 2:
        await api.person("Ada", "King", email=email)
    file = "email,first_name,last_name\nAda@x.org,Ada,King\n"
    _, lines = await post(api, f"/persons?rows[key]={key}", file)
    detail = "This is ambiguous: several persons match, such as 1, 2, 3."
    assert lines[0]["errors"][0]["detail"] == detail


@pytest.mark.parametrize("is_unique", [False, True])
async def test_a_value_that_another_resource_has_is_an_error_of_its_row(
    serve: Serve, settings: Settings, is_unique: bool
) -> None:
    if is_unique:
        settings = replace(settings, unique=("person.email",))
    api = await serve(settings=settings)
    path = "/persons?rows[key]=first_name,last_name"
    file = "first_name,last_name,email\nAda,King,ada@x.org\nEve,Queen,ADA@x.org\n"
    for headers in (DRY, {}):
        _, lines = await post(api, path, file, **headers)
        codes = [error["code"] for line in lines for error in line.get("errors", ())]
        assert codes == (["value_taken"] if is_unique else [])
        assert lines[-1]["meta"]["created"] == {"person": 2 - is_unique}


@pytest.mark.parametrize("headers", [DRY, {}])
async def test_a_value_that_only_mongodb_refuses_is_an_error_of_its_row(
    headers: dict[str, str], api: Api, database: Database
) -> None:
    await database.persons.create_index("email", unique=True)  # as of another service
    path = "/persons?rows[key]=first_name,last_name"
    file = "first_name,last_name,email\nAda,King,a@x.org\nEve,Queen,a@x.org\nBob,Byron,b@x.org\n"
    _, lines = await post(api, path, file, **headers)
    [error] = lines[0]["errors"]
    assert (error["code"], error["source"]) == ("value_taken", {"line": 3, "column": "email"})
    assert lines[-1]["meta"]["created"] == {"person": 2}


@pytest.mark.parametrize(
    ("path", "file", "status", "detail"),
    [
        ("/computers", "", 422, "The file is empty."),
        ("/computers", "serial\n", 422, "The file has no rows."),
        ("/computers", "serial,serial\nA,B\n", 422, "The column `serial` occurs twice."),
        ("/computers", "serial\nA\nA\n", 422, "Line 3 repeats line 2."),
        ("/computers", "serial,colour\nA,red\n", 422, "The column `colour` does not fit"),
        ("/computers?rows[key]=color", "serial\nA\n", 400, "does not name attributes"),
        ("/computers?rows[key]=owner.email", "serial\nA\n", 400, "The file has no column"),
        ("/computers?rows[map][S]=serial", "serial\nA\n", 400, "The file has no column `S`"),
        ("/computers?rows[create]=1", "serial\nA\n", 400, "must be `true` or `false`"),
        ("/computers?include=owner", "serial\nA\n", 400, "Unknown query parameter `include`"),
        ("/computers", b"serial\n\xfc\n", 422, "The file is not UTF-8: byte 0xfc in line 2."),
    ],
)
async def test_a_file_can_be_refused_as_a_whole(
    api: Api, path: str, file: str | bytes, status: int, detail: str
) -> None:
    refused, document = await post(api, path, file)
    assert (refused, detail in document["errors"][0]["detail"]) == (status, True), document
    assert await serials(api) == []


@pytest.mark.parametrize(
    ("charset", "headers", "status", "detail"),
    [
        ("koi8-r", {}, 415, "Unsupported charset `koi8-r`; supported: `utf-8`, `windows-1252`"),
        ("", {"If-Match": '"1"'}, 412, "`If-Match` or `If-None-Match` does not hold"),
        ("", {"Idempotency-Key": "k"}, 400, "A file of rows has no `Idempotency-Key`"),
    ],
)
async def test_headers_that_a_file_cannot_have_are_refused(
    api: Api, charset: str, headers: dict[str, str], status: int, detail: str
) -> None:
    refused, document = await post(api, "/computers", "serial\nA\n", charset, **headers)
    assert (refused, document["errors"][0]["detail"].startswith(detail)) == (status, True), document
    assert await serials(api) == []


async def test_a_file_may_be_compressed(api_on_runner: Api) -> None:
    api, coded = api_on_runner, {"Content-Encoding": "gzip"}
    few = gzip.compress(b"serial\nA\n")
    assert await report(api, BY_SERIAL, few, **coded) == {"rows": 1, "created": {"computer": 1}}
    status, document = await post(api, BY_SERIAL, few[:-4], **coded)  # the end is missing
    assert (status, document["errors"][0]["code"]) == (400, "malformed_request")
    many = gzip.compress(f"serial\n{rows_of(4_000)}".encode())
    _, lines = await post(api, BY_SERIAL, many[:-4], **coded)
    assert lines[-1]["errors"][0]["code"] == "malformed_request"
    assert await count(api) == 1 + lines[-2]["meta"]["rows"] > 1


def rows_of(number: int) -> str:
    """Return rows of 100 bytes: of a large file, rows are read before all of it has arrived."""
    return "".join(f"S-{index:097}\n" for index in range(number))


async def test_a_client_may_send_all_of_a_file_before_it_reads_the_report(api: Api) -> None:
    rows = b"A,B\n" * 60_000  # of which each is an error with a line of its own
    head = f"POST /computers HTTP/1.1\r\nHost: h\r\nContent-Length: {len(rows) + 7}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port, limit=2**12)
    head += "Content-Type: text/csv\r\nConnection: close\r\n\r\n"
    writer.write(f"{head}serial\n".encode() + rows)
    async with asyncio.timeout(60):
        await writer.drain()
        received = await reader.read()
    writer.close()
    assert received.count(b'"source":{"line"') == 60_000
    assert b'"invalid":60000,"complete":true' in received


async def test_a_file_that_stops_arriving_ends_after_what_was_counted(serve: Serve) -> None:
    api = await serve(limits=HURRIED)
    rows = rows_of(4_000)

    async def pieces() -> AsyncIterator[bytes]:
        yield f"serial\n{rows}".encode()
        await asyncio.sleep(30)

    async with api.client.post("/computers", data=pieces(), headers=CSV) as response:
        lines = [json.loads(line) for line in (await response.read()).splitlines()]
    assert lines[-1]["errors"][0]["code"] == "request_timeout"
    counted = lines[-2]["meta"]["created"]["computer"]
    assert "complete" not in lines[-2]["meta"]
    assert len((await api.get(f"/computers?page[number]={counted}&page[size]=1")).data) == 1


async def test_a_late_byte_of_another_charset_ends_the_report_with_an_error(api: Api) -> None:
    rows = rows_of(9_000).encode()
    status, lines = await post(api, "/computers", b"serial\n" + rows + b"\xfc\nT\n")
    assert status == 200
    [error] = lines[-1]["errors"]
    assert (error["status"], error["code"]) == ("422", "invalid_file")
    assert "The file is not UTF-8: byte 0xfc in line 9002." in error["detail"]
    counted = lines[-2]["meta"]
    assert "complete" not in counted
    assert counted["rows"] == counted["created"]["computer"] > 0
    assert await count(api) == counted["rows"]


async def test_an_import_whose_client_disconnects_is_completed_by_the_next(
    serve: Serve, settings: Settings
) -> None:
    api = await serve(settings=replace(settings, unique=("computer.serial",)))
    number = 4_000
    file = "serial\n" + rows_of(number)

    async def pieces() -> AsyncIterator[bytes]:
        yield file[:300_000].encode()
        await asyncio.sleep(30)

    async with api.client.post("/computers", data=pieces(), headers=CSV) as response:
        counted = json.loads(await response.content.readline())["meta"]
        response.close()
    assert await count(api) >= counted["rows"] == counted["created"]["computer"] > 0
    totals = await report(api, "/computers", file)
    created, unchanged = totals["created"]["computer"], totals["unchanged"]["computer"]
    assert created + unchanged == totals["rows"] == number
    assert unchanged >= counted["rows"]
    assert await count(api) == number


async def test_a_transaction_that_has_begun_is_completed_when_its_client_leaves(
    api_on_runner: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api, load = api_on_runner, RowUnit._load
    await report(api, BY_SERIAL, "serial\nA\n")
    begun, is_left = threading.Event(), threading.Event()

    def load_and_wait(unit: RowUnit, requests: Sequence[WriteRequest]) -> None:
        load(unit, requests)
        begun.set()
        is_left.wait(30)

    monkeypatch.setattr(RowUnit, "_load", load_and_wait)
    file, slots = f"{HEADER}A,{ADA}\nB,{ADA}\n", bulkheads(api)
    sending = asyncio.create_task(report(api, BY_SERIAL, file))
    await asyncio.to_thread(begun.wait, 30)
    sending.cancel()
    assert await eventually(lambda: slots.uploads.is_idle)
    is_left.set()
    assert await eventually(lambda: slots.heavy_requests.is_idle)
    assert await serials(api) == [("A", "ada@x.org"), ("B", "ada@x.org")]
    assert await report(api, BY_SERIAL, file) == {"rows": 2, "unchanged": {"computer": 2}}
    assert not caplog.records


async def test_a_token_that_is_revoked_ends_an_import(
    serve: Serve, secured: Settings, grant: Grant, database: Database
) -> None:
    api, token = await serve(settings=secured), await grant("computers:write")
    rows = rows_of(3_000)

    async def pieces() -> AsyncIterator[bytes]:
        yield f"serial\n{rows}".encode()
        while not await database.computers.count_documents({}):  # noqa: ASYNC110 - of the service
            await asyncio.sleep(0.01)
        await Tokens(database).revoke("0")
        await asyncio.sleep(1.5)  # for as long as a token is remembered
        yield rows.replace("S-", "T-").encode()

    headers = {"Content-Type": CSV_TYPE, "Authorization": f"Bearer {token}"}
    async with api.client.post("/computers", data=pieces(), headers=headers) as response:
        lines = [json.loads(line) for line in (await response.read()).splitlines()]
    assert lines[-1]["errors"][0]["code"] == "invalid_token"
    assert lines[-2]["meta"]["rows"] <= 3_000


async def test_an_import_needs_the_scopes_of_its_columns(
    serve: Serve, secured: Settings, header: Header
) -> None:
    api = await serve(settings=secured)
    of_computers = await header("computers:write")
    assert (await post(api, "/computers", "serial\nA\n", **of_computers))[0] == 200
    status, document = await post(api, "/computers", f"{HEADER}B,{ADA}\n", **of_computers)
    assert (status, document["errors"][0]["code"]) == (403, "insufficient_scope")
    assert (await post(api, "/persons", "email\na@x.org\n", **of_computers))[0] == 403


async def test_a_long_quoted_record_is_not_read_anew_with_each_piece(api: Api) -> None:
    file = b'serial\n"x' + b"\n" * 200_000 + b'"\nB\n'

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(file), 100):
            yield file[start : start + 100]
            await asyncio.sleep(0)  # so that most arrive alone

    async def seconds(body: bytes | AsyncIterator[bytes]) -> float:
        began = process_time()
        async with api.client.post(BY_SERIAL, data=body, headers=CSV) as response:
            assert b'"line":200003' not in await response.read()
        return process_time() - began

    await seconds(file)
    assert await seconds(pieces()) < 1 + 10 * await seconds(file)


async def test_others_are_served_while_empty_rows_are_read(api: Api) -> None:
    file = "serial\n" + "\n" * 500_000 + "A\n"
    importing = asyncio.create_task(report(api, BY_SERIAL, file))
    served = 0
    while not importing.done():
        await api.get("/computers?page[size]=1")
        served += 1
    assert await importing == {"rows": 1, "created": {"computer": 1}}
    assert served > 30

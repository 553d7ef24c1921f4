"""Atomic Operations: several changes in one request, all of them or none."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

from registry.jsonapi.atomic_operations import OPERATIONS, RESULTS
from registry.settings import Settings
from tests.conftest import LIMITS, Serve
from tests.jsonapi.test_atomic_operations import COMPUTER, DOCUMENT, PERSON
from tests.support import (
    MEDIA_TYPE,
    Api,
    Database,
    Response,
    check_document,
    linkage_of,
    stored_records,
    to_many,
)

EXTENDED = f'{MEDIA_TYPE}; ext="https://jsonapi.org/ext/atomic"'


async def send(api: Api, document: Any, path: str = "/operations", **headers: str) -> Response:
    """Send a document, or the bytes as they are, and hold the answer against the extension."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    sent = {"Content-Type": EXTENDED} | headers
    async with api.client.post(path, data=io.BytesIO(body), headers=sent) as response:
        answer = Response(response.status, response.headers, json.loads(await response.read()))
    assert answer.headers["X-Request-ID"]
    assert answer.headers["Vary"] == "Accept"
    if answer.status == 200:
        assert answer.headers["Content-Type"] == EXTENDED
        assert answer.document.keys() == {RESULTS, "jsonapi"}
        for result in results(answer):
            assert result.keys() <= {"data"}
            if result:
                check_document({**result, "jsonapi": answer.document["jsonapi"]})
        assert len(results(answer)) == len(json.loads(body)[OPERATIONS])
    else:
        assert answer.headers["Content-Type"] == MEDIA_TYPE
        check_document(answer.document)
    return answer


async def operate(api: Api, *operations: Any) -> Response:
    return await send(api, {OPERATIONS: operations})


def results(answer: Response) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer.document[RESULTS]
    return found


def errors(answer: Response) -> list[tuple[int, str]]:
    """Status and pointer, from the array on, of each error."""
    return [(status, place.removeprefix(f"/{OPERATIONS}")) for status, place in answer.errors]


def reference(type_name: str, number: str, relationship: str | None = None) -> dict[str, Any]:
    found = {"type": type_name, "id": number}
    return {"ref": found if relationship is None else {**found, "relationship": relationship}}


@pytest.mark.covers("i.operations")
async def test_operations_are_applied_in_order_and_so_are_their_results(api: Api) -> None:
    owner = {"data": {"type": "person", "lid": "grace"}}
    answer = await operate(
        api,
        {"op": "add", "data": {**PERSON, "lid": "grace"}},
        {"op": "add", "data": {**COMPUTER, "lid": "first", "relationships": {"owner": owner}}},
        {"op": "add", "href": "/computers", "data": {**COMPUTER, "lid": "second"}},
        {
            "op": "add",
            "ref": {"type": "person", "lid": "grace", "relationship": "computers"},
            "data": [{"type": "computer", "lid": "second"}],
        },
        {
            "op": "update",
            "data": {"type": "person", "lid": "grace", "attributes": {"last_name": "Murray"}},
        },
        {"op": "remove", "ref": {"type": "computer", "lid": "first"}},
    )
    assert answer.status == 200
    added, first, second, related, updated, removed = results(answer)
    assert added["data"]["attributes"]["last_name"] == "Hopper"
    assert linkage_of(first["data"]) == {"owner": {"data": {"type": "person", "id": "1"}}}
    assert second["data"]["id"] == "2"
    assert related == {}
    assert updated["data"]["attributes"]["full_name"] == "Grace Murray"
    assert removed == {}
    assert (await api.get("/persons/1")).data == updated["data"]
    read = await api.get("/persons/1?include=computers")
    assert linkage_of(read.data) == {"computers": to_many("2")}


@pytest.mark.covers("i.operations")
async def test_a_result_equals_the_response_to_a_separate_request(api: Api) -> None:
    added = await operate(api, {"op": "add", "data": PERSON}, {"op": "add", "data": COMPUTER})
    created = [await api.post("/persons", PERSON), await api.post("/computers", COMPUTER)]
    for result, one in zip(results(added), created, strict=True):
        assert one.id == "2"
        assert result["data"] == json.loads(
            json.dumps(one.data).replace("s/2", "s/1").replace('"2"', '"1"')
        )
    change = {
        "type": "person",
        "attributes": {"email": "g@example.com"},
        "relationships": {"computers": to_many("2", "1")},
    }
    updated = await operate(api, {"op": "update", "href": "/persons/1", "data": change})
    assert results(updated) == [{"data": (await api.patch("/persons/1", change)).data}]
    assert linkage_of(results(updated)[0]["data"]) == {"computers": to_many("1", "2")}


@pytest.mark.covers("i.operations")
async def test_a_client_generated_id_is_ignored(api: Api) -> None:
    answer = await operate(
        api,
        {"op": "add", "data": {**PERSON, "id": "900", "lid": "a"}},
        {"op": "update", "href": "/persons/1", "data": {"type": "person", "id": "900"}},
    )
    assert [one["data"]["id"] for one in results(answer)] == ["1", "1"]
    assert (await api.person()) == "2"


@pytest.mark.covers("i.operations")
async def test_relationship_members_are_added_removed_replaced_and_cleared(api: Api) -> None:
    await api.person()
    for _ in range(3):
        await api.computer()
    many, one = reference("person", "1", "computers"), reference("computer", "1", "owner")
    steps: list[tuple[dict[str, Any], list[str]]] = [
        ({"op": "add", **many, "data": to_many("1", "2")["data"]}, ["1", "2"]),
        ({"op": "add", **many, "data": to_many("2", "3")["data"]}, ["1", "2", "3"]),
        ({"op": "remove", **many, "data": to_many("1", "9")["data"]}, ["2", "3"]),
        ({"op": "update", **many, "data": to_many("1")["data"]}, ["1"]),
        ({"op": "update", **one, "data": None}, []),
        ({"op": "update", **one, "data": {"type": "person", "id": "1"}}, ["1"]),
        ({"op": "update", "href": "/persons/1/relationships/computers", "data": []}, []),
    ]
    for operation, expected in steps:
        answer = await operate(api, operation)
        assert (answer.status, results(answer)) == (200, [{}])
        read = await api.get("/persons/1?include=computers")
        assert linkage_of(read.data) == {"computers": to_many(*expected)}


@pytest.mark.covers("i.operations")
@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        ({"op": "remove", **reference("person", "9")}, (404, "/6/ref/id")),
        ({"op": "remove", "href": "/persons/9"}, (404, "/6/href")),
        ({"op": "remove", "href": "/persons/x"}, (404, "/6/href")),
        ({"op": "remove", **reference("person", str(2**63))}, (404, "/6/ref/id")),
        ({"op": "update", "data": {"type": "person", "id": "9"}}, (404, "/6/data/id")),
        ({"op": "remove", "ref": {"type": "computer", "lid": "gone"}}, (404, "/6/ref/lid")),
        (
            {"op": "update", **reference("person", "9", "computers"), "data": []},
            (404, "/6/ref/id"),
        ),
        (
            {"op": "add", **reference("person", "1", "computers"), "data": to_many("9")["data"]},
            (404, "/6/data/0/id"),
        ),
        (
            {
                "op": "update",
                **reference("computer", "1", "owner"),
                "data": {"type": "person", "id": "9"},
            },
            (404, "/6/data/id"),
        ),
        (
            {"op": "add", "data": {**PERSON, "relationships": {"computers": to_many("1", "9")}}},
            (404, "/6/data/relationships/computers/data/1/id"),
        ),
        ({"op": "add", "href": "/persons", "data": COMPUTER}, (409, "/6/data/type")),
        ({"op": "add", "data": {"type": "computer"}}, (422, "/6/data/attributes/serial")),
        (
            {"op": "add", "data": {**COMPUTER, "relationships": []}},
            (400, "/6/data/relationships"),
        ),
    ],
)
async def test_a_failing_last_operation_rolls_back_all_others(
    api: Api, database: Database, failing: Any, expected: tuple[int, str]
) -> None:
    await api.person()
    await api.person()
    await api.computer(owner="2")
    before = await stored_records(database)
    answer = await operate(
        api,
        {"op": "add", "data": PERSON},
        {"op": "add", "data": {**COMPUTER, "lid": "gone"}},
        {"op": "update", "href": "/persons/1", "data": {**PERSON, "attributes": {"email": None}}},
        {"op": "add", **reference("person", "1", "computers"), "data": to_many("1")["data"]},
        {"op": "remove", **reference("person", "2")},
        {"op": "remove", "ref": {"type": "computer", "lid": "gone"}},
        failing,
    )
    assert (answer.status, errors(answer)) == (expected[0], [expected])
    assert await stored_records(database) == before
    assert int(await api.person()) > 2, "an id may be left out, but is never given twice"


@pytest.mark.covers("i.operations")
async def test_errors_of_several_operations_are_reported_together(api: Api) -> None:
    answer = await operate(
        api,
        {"op": "add", "data": {"type": "person", "attributes": {"email": "x", "first_name": "G"}}},
        {"op": "add", "data": COMPUTER},
        {"op": "update", "href": "/persons/1", "data": COMPUTER},
        {"op": "jump"},
        {"op": "remove", "href": "/people/1"},
    )
    assert answer.status == 400
    assert sorted(errors(answer)) == [
        (400, "/3/op"),
        (404, "/4/href"),
        (409, "/2/data/type"),
        (422, "/0/data/attributes/email"),
        (422, "/0/data/attributes/last_name"),
    ]
    assert (await api.get("/computers")).data == []


@pytest.mark.covers("i.operations")
async def test_every_missing_identifier_of_an_operation_is_reported(api: Api) -> None:
    await api.person()
    missing = to_many("8", "9")["data"]
    answer = await operate(
        api, {"op": "update", **reference("person", "1", "computers"), "data": missing}
    )
    assert (answer.status, errors(answer)) == (404, [(404, "/0/data/0/id"), (404, "/0/data/1/id")])


@pytest.mark.covers("i.operations")
async def test_an_added_resource_can_be_linked_updated_and_removed_in_the_same_request(
    api: Api, database: Database
) -> None:
    person = {"type": "person", "lid": "a"}
    answer = await operate(
        api,
        {"op": "add", "data": {**PERSON, **person}},
        {"op": "add", "data": {**COMPUTER, "relationships": {"owner": {"data": person}}}},
        {"op": "update", "data": {**person, "attributes": {"first_name": "Mary"}}},
        {"op": "update", "data": {**person, "attributes": {"last_name": "Murray"}}},
        {"op": "remove", "ref": person},
    )
    names = [one["data"]["attributes"].get("full_name") for one in results(answer)[2:4]]
    assert names == ["Mary Hopper", "Mary Murray"]
    persons, (computer,) = await stored_records(database)
    assert (persons, computer["person"]) == ([], None)


@pytest.mark.covers("i.operations", "i.conditional")
async def test_operations_change_the_etags_of_the_resources_they_write(api: Api) -> None:
    await api.person()
    await api.computer()
    old = [(await api.get(path)).headers["ETag"] for path in ("/persons/1", "/computers/1")]
    assert (
        await operate(
            api,
            {"op": "add", **reference("person", "1", "computers"), "data": to_many("1")["data"]},
        )
    ).status == 200
    for path, tag, name in zip(
        ("/persons/1", "/computers/1"), old, ("person", "computer"), strict=True
    ):
        assert (await api.get(path)).headers["ETag"] != tag
        body = {"data": {"type": name}}
        refused = await api.request("PATCH", path, body, headers={"If-Match": tag})
        assert refused.status == 412


@pytest.mark.covers("i.operations")
async def test_a_thousand_operations_are_accepted_and_one_more_is_refused(api: Api) -> None:
    added = [{"op": "add", "data": {**PERSON, "lid": f"p{one}"}} for one in range(500)]
    owned = [
        {
            "op": "add",
            "data": {
                **COMPUTER,
                "relationships": {"owner": {"data": {"type": "person", "lid": f"p{one}"}}},
            },
        }
        for one in range(500)
    ]
    refused = await operate(api, *added, *owned, {"op": "add", "data": PERSON})
    assert (refused.status, errors(refused)) == (400, [(400, "")])
    assert (await api.get("/persons")).data == []
    began = time.monotonic()
    answer = await operate(api, *added, *owned)
    seconds = time.monotonic() - began
    assert answer.status == 200
    numbers = [one["data"]["id"] for one in results(answer)]
    assert numbers == [*map(str, range(1, 501))] * 2
    owners = [linkage_of(one["data"])["owner"]["data"]["id"] for one in results(answer)[500:]]
    assert owners == numbers[:500]
    assert seconds < 10


async def test_the_maximum_number_of_operations_is_a_setting(
    serve: Serve, settings: Settings
) -> None:
    api = await serve(settings=replace(settings, most_operations=2))
    added = {"op": "add", "data": PERSON}
    assert (await operate(api, added, added)).status == 200
    refused = await operate(api, added, added, added)
    assert (refused.status, errors(refused)) == (400, [(400, "")])


@pytest.mark.covers("i.operations", "i.negotiation")
@pytest.mark.parametrize(
    "content_type",
    [
        MEDIA_TYPE,
        f"{EXTENDED}; charset=utf-8",
        f'{MEDIA_TYPE}; ext="https://example.com/other"',
        f'{MEDIA_TYPE}; ext="https://jsonapi.org/ext/atomic https://example.com/other"',
        f"{MEDIA_TYPE}; ext",
        f'{MEDIA_TYPE}; ext=""',
        "application/json",
        "",
    ],
)
async def test_operations_of_an_unsupported_media_type_are_refused(
    api: Api, content_type: str
) -> None:
    document = {OPERATIONS: [{"op": "add", "data": PERSON}]}
    answer = await send(api, document, **{"Content-Type": content_type})
    assert answer.status == 415
    assert EXTENDED in answer.document["errors"][0]["detail"]
    assert (await api.get("/persons")).data == []


@pytest.mark.covers("i.operations", "i.negotiation")
@pytest.mark.parametrize("content_type", [EXTENDED, EXTENDED.replace("; ", ";")])
async def test_operations_of_the_extended_media_type_are_accepted(
    api: Api, content_type: str
) -> None:
    document = {OPERATIONS: [{"op": "add", "data": PERSON}]}
    assert (await send(api, document, **{"Content-Type": content_type})).status == 200


@pytest.mark.covers("i.operations", "i.negotiation")
async def test_the_extension_applies_only_to_the_operations_path(api: Api) -> None:
    answer = await send(api, {"data": PERSON}, "/persons")
    assert answer.status == 415
    answer = await api.request("GET", "/persons", headers={"Accept": EXTENDED})
    assert answer.status == 406


@pytest.mark.covers("i.operations", "i.negotiation")
@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (EXTENDED, 200),
        (EXTENDED.replace("; ", ";"), 200),
        (f"{EXTENDED};q=0.5", 200),
        (MEDIA_TYPE, 200),
        ("*/*", 200),
        (f"{MEDIA_TYPE}; charset=utf-8, {EXTENDED}", 200),
        (f"{MEDIA_TYPE}; charset=utf-8", 406),
        (f'{MEDIA_TYPE}; ext="https://example.com/other"', 406),
    ],
)
async def test_results_are_sent_only_to_clients_that_accept_them(
    api: Api, accept: str, status: int
) -> None:
    answer = await send(api, {OPERATIONS: [{"op": "add", "data": PERSON}]}, Accept=accept)
    assert answer.status == status
    assert len((await api.get("/persons")).data) == (status == 200)


@pytest.mark.covers("i.operations")
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
async def test_the_operations_path_allows_only_post(api: Api, method: str) -> None:
    answer = await api.request(method, "/operations")
    assert (answer.status, answer.headers["Allow"]) == (405, "OPTIONS, POST")


async def test_options_on_the_operations_path_lists_its_methods(api: Api) -> None:
    answer = await api.request("OPTIONS", "/operations")
    assert (answer.status, answer.headers["Allow"]) == (204, "OPTIONS, POST")


@pytest.mark.covers("i.operations")
@pytest.mark.parametrize("name", ["include", "fields[person]", "x", "page[size]"])
async def test_query_parameters_are_refused_for_operations(api: Api, name: str) -> None:
    document = {OPERATIONS: [{"op": "add", "data": PERSON}]}
    answer = await send(api, document, f"/operations?{name}=")
    assert (answer.status, answer.errors) == (400, [(400, name)])
    assert (await api.get("/persons")).data == []


@pytest.mark.covers("i.operations")
@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"", ""),
        (b"x", ""),
        (b"[]", ""),
        (b"null", ""),
        (b"{}", f"/{OPERATIONS}"),
        (b'{"data": []}', f"/{OPERATIONS}"),
        (b'{"atomic:operations": []}', f"/{OPERATIONS}"),
        (b'{"atomic:operations": {}}', f"/{OPERATIONS}"),
        (b'{"atomic:operations": null}', f"/{OPERATIONS}"),
        (b'{"atomic:operations": [1]}', f"/{OPERATIONS}/0"),
        (b'{"atomic:operations": [{"op": "add"}], "data": []}', "/data"),
        (b'{"atomic:operations": ' + b"[" * 100_000, ""),
        (b"[" * 100_000 + b"]" * 100_000, ""),
        (b"\xff" * 1_000_000, ""),
    ],
)
async def test_a_body_without_operations_is_refused(api: Api, body: bytes, place: str) -> None:
    answer = await send(api, body)
    assert (answer.status, answer.errors) == (400, [(400, place)])


@pytest.mark.covers("i.operations")
async def test_at_most_a_hundred_errors_are_reported(api: Api) -> None:
    wrong = {"op": "add", **reference("person", "1", "computers"), "data": [{}] * 340}
    answer = await operate(api, *[wrong] * 700)
    assert (answer.status, len(answer.errors)) == (400, 100)


@pytest.mark.covers("i.operations", "d.body_limits")
async def test_a_body_above_the_size_limit_is_refused(api: Api) -> None:
    document = json.dumps({OPERATIONS: [{"op": "add", "data": PERSON}]}).encode()
    fitting = await send(api, document.ljust(LIMITS.body_bytes))
    assert fitting.status == 200
    assert (await send(api, document.ljust(LIMITS.body_bytes + 1))).status == 413
    assert len((await api.get("/persons")).data) == 1


@pytest.mark.covers("i.operations")
async def test_concurrent_operations_on_the_same_resource_are_isolated(
    api: Api, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Each moves the one computer to the person and away: no one may see it half done."""
    caplog.set_level(logging.ERROR, "registry")
    await api.person()
    await api.computer()
    many, one = reference("person", "1", "computers"), reference("computer", "1", "owner")
    operations = [
        {"op": "update", "href": "/persons/1", "data": {"type": "person", "attributes": {}}},
        {"op": "add", **many, "data": to_many("1")["data"]},
        {"op": "update", **one, "data": None},
        {"op": "add", "data": COMPUTER},
    ]
    answers = await asyncio.gather(*(operate(api, *operations) for _ in range(20)))
    assert {answer.status for answer in answers} <= {200, 503}
    done = sum(answer.status == 200 for answer in answers)
    persons, computers = await stored_records(database)
    assert done
    assert len(computers) == 1 + done
    assert computers[0]["person"] is None
    assert persons[0]["version"] == 1 + 3 * done
    assert "Traceback" not in caplog.text


@pytest.mark.covers("i.operations")
async def test_concurrent_operations_in_opposite_orders_all_succeed(
    api: Api, database: Database
) -> None:
    await api.person()
    await api.person()
    there = [
        {"op": "update", "href": f"/persons/{one}", "data": {"type": "person"}} for one in (1, 2)
    ]
    answers = await asyncio.gather(*(operate(api, *order) for order in [there, there[::-1]] * 10))
    assert {answer.status for answer in answers} == {200}
    persons, _ = await stored_records(database)
    assert [one["version"] for one in persons] == [21, 21]


@pytest.mark.covers("i.operations")
@pytest.mark.parametrize("value", ["$serial", "$$ROOT", "{$gt: 0}"])
async def test_attribute_values_are_never_evaluated_as_mongodb_operators(
    api: Api, value: str
) -> None:
    change = {"type": "computer", "attributes": {"serial": value}}
    answer = await operate(
        api,
        {"op": "add", "data": {**COMPUTER, "lid": "a"}},
        {"op": "update", "ref": {"type": "computer", "lid": "a"}, "data": change},
        {"op": "add", "data": change},
    )
    assert [one["data"]["attributes"]["serial"] for one in results(answer)[1:]] == [value] * 2


@pytest.mark.covers("i.operations")
@given(document=DOCUMENT)
@hypothesis_settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # one service for all examples
)
async def test_arbitrary_documents_never_cause_an_internal_error(api: Api, document: Any) -> None:
    answer = await send(api, document)
    assert answer.status in {200, 400, 404, 409, 422}


@pytest.mark.covers("i.operations")
async def test_a_resource_removal_with_data_is_refused(api: Api, database: Database) -> None:
    person = await api.person()
    await api.computer(owner=person)
    before = await stored_records(database)
    members = to_many("1")["data"]
    for target in (reference("person", person), {"href": f"/persons/{person}"}):
        answer = await operate(api, {"op": "remove", **target, "data": members})
        assert (answer.status, errors(answer)) == (400, [(400, "/0/data")])
    assert await stored_records(database) == before
    answer = await operate(api, {"op": "remove", **reference("person", person), "data": None})
    assert answer.status == 200

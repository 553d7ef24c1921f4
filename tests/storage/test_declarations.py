"""The declared types may change: what is stored stays; what does not fit keeps it from serving."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from registry.http.app_keys import REPOSITORY
from registry.operations.consistency import check
from registry.program import StartError
from registry.resources.types_file import TypesFile
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import Api, Database, new, to_one

Restart = Callable[[str], Awaitable[Api]]

DEFAULTS = """
[computer]
note   = {type = "text", default = "$none"}
cores  = {type = "integer", default = 4}
price  = {type = "decimal", default = 12.50}
leased = {type = "boolean", default = false, nullable = true}
seen   = {type = "datetime", default = 2026-01-31T12:00:00Z}
status = {enum = ["ready", "repair"], default = "ready"}
"""

LINK = '{link = "person", inverse = "phones"}'

PHONES = f"""
[phone]
collection = "phones"
number = {{type = "text", required = true}}
owner  = {LINK}
"""


@pytest.fixture
def restart(serve: Serve, settings: Settings) -> Restart:
    """A function that stops the service, and starts it with a file of this text."""
    running: list[Api] = []

    async def restart(text: str) -> Api:
        while running:
            await running.pop().client.close()
        api = await serve(settings=replace(settings, types=TypesFile(text)))
        running.append(api)
        return api

    return restart


async def violations(api: Api, database: Database) -> Sequence[str]:
    graph = api.client.app[REPOSITORY]._graph
    return (await check(database, graph)).lines


async def attributes(api: Api, path: str = "/computers") -> list[dict[str, Any]]:
    return [resource["attributes"] for resource in (await api.get(path)).data]


async def test_stored_records_get_the_defaults_of_new_attributes(
    restart: Restart, database: Database
) -> None:
    api = await restart("")
    old = await api.computer("A")
    version = (await database.computers.find_one({}))["version"]  # type: ignore[index]
    api = await restart(DEFAULTS)
    assert (await database.computers.find_one({}))["version"] == version  # type: ignore[index]
    shown = {"note": "$none", "cores": 4, "price": "12.50", "leased": False, "status": "ready"}
    shown |= {"seen": "2026-01-31T12:00:00.000Z"}
    added = await api.computer("B")
    assert await attributes(api) == [{"serial": serial} | shown for serial in "AB"]
    for name, value in shown.items():
        text = str(value).lower() if value is False else value
        assert (await api.get(f"/computers?filter[{name}]={text}")).ids == [old, added], name
    assert (await api.get("/computers?sort=-status,-id")).ids == [added, old]
    assert await violations(api, database) == []


async def test_a_unique_attribute_may_get_another_type_while_nothing_has_it(
    restart: Restart,
) -> None:
    await restart('[computer]\ncode = {type = "text", unique = true}')
    api = await restart('[computer]\ncode = {type = "integer", unique = true}')
    await api.create(new("computer", serial="A", code=1))
    assert (await api.post("/computers", new("computer", serial="B", code=1))).status == 409


async def test_removed_declarations_are_hidden_and_come_back(
    restart: Restart, database: Database
) -> None:
    own = '[computer]\nmodel = "text"\ntag = {type = "text", unique = true}\n' + PHONES
    api = await restart(own)
    ada = await api.person()
    await api.create(new("computer", serial="A", model="T14", tag="IT-1"))
    await api.create(new("phone", number="1"))
    await api.set_computers(ada, "1")
    api = await restart("")
    assert await attributes(api) == [{"serial": "A"}]
    assert (await api.get("/phones")).status == 404
    indexes = await database.computers.index_information()
    assert not any("model" in name or "tag" in name for name in indexes)
    assert (await api.patch("/computers/1", new("computer", serial="B"))).status == 200
    await api.computer("C")
    api = await restart(own + 'private = {type = "boolean", default = false}')
    assert await attributes(api) == [
        {"serial": "B", "model": "T14", "tag": "IT-1"},
        {"serial": "C", "model": None, "tag": None},
    ]
    assert await attributes(api, "/phones") == [{"number": "1", "private": False}]
    assert await violations(api, database) == []


async def test_a_relationship_that_is_declared_again_is_counted_anew(
    restart: Restart, database: Database
) -> None:
    api = await restart(PHONES)
    ada, bob = await api.person(), await api.person()
    own = new("phone", {"owner": to_one(ada)}, number="1")
    await api.create(own)
    api = await restart(PHONES.replace('"phones"}', '"mobiles"}'))
    for owner, count in ((ada, 1), (bob, 0)):
        shown = (await api.get(f"/persons/{owner}?withCount=mobiles")).data["relationships"]
        assert shown["mobiles"]["meta"] == {"count": count}
    await api.patch("/phones/1", new("phone", {"owner": to_one(bob)}))
    await restart(PHONES)
    assert await violations(api, database) == []


TWO = '[computer]\nx = "text"\n'


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            TWO,
            '[computer]\nx = "integer"',
            "computer.x does not fit the stored values of 1 computer (ids 2);",
        ),
        (
            TWO,
            '[computer]\nx = {enum = ["b"]}',
            "of 1 computer (ids 2);",
        ),
        (
            TWO,
            '[computer]\nx = {type = "text", required = true}',
            "of 7 computers (ids 1, 3, 4, 5, 6 and 2 more);",
        ),
        (
            PHONES,
            PHONES.replace('"person"', '"computer"'),
            "phone.owner does not fit the stored values of 1 phone (ids 1);",
        ),
        (
            PHONES,
            PHONES.replace(LINK, '"integer"'),
            "phone.owner does not fit the stored values of 1 phone (ids 1);",
        ),
        (
            '[computer]\nx = "integer"',
            f"[computer]\nx = {LINK}",
            "computer.x does not fit the stored values of 1 computer (ids 2);",
        ),
        *(
            (PHONES, PHONES.replace(*names, 1), "the collection of phone is phones, which has")
            for names in (('"phones"', '"mobiles"'), ("[phone]", "[mobile]"))
        ),
    ],
)
async def test_declarations_that_do_not_fit_are_refused_and_change_nothing(
    before: str, after: str, reason: str, restart: Restart, database: Database
) -> None:
    api = await restart(before)
    owner = {"owner": to_one(await api.person())}
    await api.post("/phones", new("phone", owner, number="1"))
    value = 5 if "integer" in before else "a"
    for number in range(8):
        own = {"x": value} if number == 1 and "x =" in before else {}
        await api.create(new("computer", serial=str(number), **own))
    stored = await database.computers.find().to_list(None)
    with pytest.raises(StartError) as raised:
        await restart(after)
    assert reason in str(raised.value)
    assert await database.computers.find().to_list(None) == stored
    with pytest.raises(StartError):  # nor at the next start
        await restart(after)
    await restart(before)


async def test_a_history_refuses_another_target(restart: Restart) -> None:
    api = await restart(PHONES)
    await api.create(new("phone", {"owner": to_one(await api.person())}, number="1"))
    assert (await api.request("DELETE", "/phones/1")).status == 204
    with pytest.raises(StartError) as raised:
        await restart(PHONES.replace('"person"', '"computer"'))
    assert str(raised.value).startswith(
        "phone_owner_period.owner does not fit the stored values of 1 phone_owner_period (ids 1); "
        "declare it as before or under another name"
    )
    await restart(PHONES.replace("owner", "holder"))


async def test_a_service_ends_when_another_one_declares_other_types(
    serve: Serve, settings: Settings
) -> None:
    failures: list[str] = []
    old = await serve(settings=replace(settings, types=TypesFile(PHONES)))
    old.repository._on_failure = failures.append
    new_types = PHONES + 'private = {type = "boolean", default = false}'
    await serve(settings=replace(settings, types=TypesFile(new_types)))
    assert (await old.person()) == "1", "its writes fit the other types as well"
    assert failures == []
    refused = await old.post("/phones", new("phone", number="1"))
    assert (refused.status, refused.code) == (503, "unavailable")
    assert failures == ["the declared types have changed: restart this service"]

"""The client for Python beside a real service."""

import asyncio
import copy
import os
import pickle
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from registry.client import Client, Conflict, Gone, RegistryError, Resource
from registry.http.followers import FOLLOWERS
from registry.settings import Settings
from tests.conftest import Grant, Serve
from tests.support import Api
from tests.system.service import ROOT, TIMEOUT

ADDRESS = "http://127.0.0.1:8080"
PAGE, _, _ = (ROOT / "docs/python-client.md").read_text().partition("## Tests")


@pytest.fixture
async def unique_api(serve: Serve, settings: Settings) -> Api:
    return await serve(settings=replace(settings, unique=("computer.serial",)))


@pytest.fixture
async def registry(unique_api: Api) -> AsyncIterator[Client]:
    async with Client(unique_api.origin) as client:
        yield client


@pytest.fixture
async def ada(registry: Client) -> Resource:
    """A person with two computers, SN-1 and SN-2."""
    ada = await registry.create("person", first_name="Ada", last_name="Lovelace")
    for serial in ("SN-1", "SN-2"):
        await registry.create("computer", serial=serial, owner=ada)
    return ada


async def serials(registry: Client, **query: Any) -> list[str]:
    return [resource["serial"] async for resource in registry.list("computer", **query)]


@pytest.fixture
def page_program(unique_api: Api, tmp_path: Path) -> Path:
    """The program on the page, with all examples."""
    program, *steps = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    body = "".join(f"{' ' * 8}{line}\n" for step in steps for line in step.splitlines())
    file = tmp_path / "program.py"
    file.write_text(program.replace(ADDRESS, unique_api.origin).replace("        ...\n", body))
    return file


async def output(*command: str | Path) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await asyncio.wait_for(process.communicate(), TIMEOUT)
    return printed.decode()


async def test_the_programs_of_the_page_print_what_it_shows(page_program: Path) -> None:
    shown = "".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL))
    assert await output(page_program) == shown


@pytest.mark.slow
async def test_the_page_on_the_client_has_the_right_types(page_program: Path) -> None:
    assert (await output("-m", "mypy", "--strict", page_program)).startswith("Success")


async def test_resources_lead_to_included_ones(registry: Client, ada: Resource) -> None:
    (first, second) = [resource async for resource in registry.list("computer", include="owner")]
    assert first.owner is second.owner
    assert first.owner == ada
    assert first.owner["full_name"] == "Ada Lovelace"
    assert (await registry.get("person", int(ada.id), include=["computers"])).computers == [
        first,
        second,
    ]
    with pytest.raises(AttributeError, match="without 'computers': see `include`"):
        _ = first.owner.computers
    with pytest.raises(KeyError):
        _ = first["model"]


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda resource: pickle.loads(pickle.dumps(resource))],  # noqa: S301 - its own
)
async def test_resources_can_be_copied_and_pickled(
    duplicate: Callable[[Resource], Resource], registry: Client, ada: Resource
) -> None:
    read = await registry.get("person", ada.id, include="computers")
    copied = duplicate(read)
    assert copied is not read
    assert (copied, copied.attributes, copied.etag) == (read, read.attributes, read.etag)
    assert copied.computers == read.computers
    with pytest.raises(AttributeError, match="without 'assignments'"):
        _ = copied.assignments


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"filter": {"owner.last_name": "Lovelace"}, "sort": "-serial"}, ["SN-2", "SN-1"]),
        ({"filter": {"serial": {"prefix": "SN", "ne": "SN-1"}}}, ["SN-2", "SN-3"]),
        ({"filter": {"owner": None}, "fields": {"computer": ["serial"]}}, ["SN-3"]),
        ({"filter": [{"not": {"name": "serial", "op": "in", "val": ["SN-1"]}}]}, ["SN-2", "SN-3"]),
        ({"sort": ["-id"]}, ["SN-3", "SN-2", "SN-1"]),
    ],
)
async def test_a_list_follows_all_pages(
    query: Any, found: list[str], registry: Client, ada: Resource
) -> None:
    await registry.create("computer", serial="SN-3", owner=None)
    registry.page_size = 1
    assert await serials(registry, **query) == found
    assert await serials(registry, filter={"owner": ada}) == ["SN-1", "SN-2"]


async def test_none_clears_attributes_and_relationships(registry: Client, ada: Resource) -> None:
    await registry.update(ada, email="ada@example.com", computers=[])
    assert (await registry.update(ada, email=None))["email"] is None
    computer = await anext(registry.list("computer", include="owner"))
    assert not computer.owner
    await registry.update(computer, owner=ada)
    assert computer.owner == ada
    await registry.update(computer, owner=None)
    assert await serials(registry, filter={"owner": None}) == ["SN-1", "SN-2"]


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.usefixtures("ada")
async def test_a_change_after_the_read_is_a_conflict(is_listed: bool, registry: Client) -> None:
    computers = registry.list("computer", include="owner")
    mine = await (anext(computers) if is_listed else registry.get("computer", 1))
    theirs = await registry.get("computer", 1)
    await registry.update(theirs, serial="SN-9")
    for change in (registry.update(mine, serial="SN-8"), registry.delete(mine)):
        with pytest.raises(Conflict) as caught:
            await change
        assert caught.value.status == 412
        assert (caught.value.read, caught.value.read and mine["serial"]) == (mine, "SN-1")
        assert caught.value.stored
        assert caught.value.stored["serial"] == "SN-9"
    await registry.delete(theirs)
    assert await serials(registry) == ["SN-2"]


async def test_changes_of_links_and_of_unread_fields_are_no_conflict(
    registry: Client, ada: Resource
) -> None:
    names = await registry.get("person", ada.id, fields={"person": "last_name"})
    await registry.update(ada, first_name="Augusta", computers=[])
    await registry.update(names, last_name="King")
    assert (await registry.get("person", ada.id))["full_name"] == "Augusta King"


@pytest.mark.usefixtures("ada")
async def test_a_taken_value_is_a_conflict_with_its_resource(registry: Client) -> None:
    with pytest.raises(Conflict) as caught:
        await registry.create("computer", serial="SN-2")
    error = caught.value
    assert (error.status, error.code, error.pointer) == (
        409,
        "value_taken",
        "/data/attributes/serial",
    )
    assert error.stored == await registry.get("computer", 2)
    assert (error.read, error.sent) == (None, {"serial": "SN-2"})


async def test_a_merge_updates_or_creates(registry: Client, ada: Resource) -> None:
    assert (await registry.merge("computer", serial="SN-2", owner=None)).id == "2"
    new = await registry.merge("computer", serial="SN-3", owner=ada)
    assert new.owner is ada
    assert await serials(registry, filter={"owner": ada}) == ["SN-1", "SN-3"]
    with pytest.raises(RegistryError) as caught:
        await registry.merge("person", first_name="Ada", last_name="Lovelace")
    assert caught.value.status == 400


async def test_errors_say_where_and_which_request(registry: Client) -> None:
    with pytest.raises(RegistryError, match=r"^/persons failed with status 422: ") as caught:
        await registry.create("person", first_name="Ada", last_name="")
    assert caught.value.pointer == "/data/attributes/last_name"
    assert caught.value.request_id
    with pytest.raises(RegistryError) as caught:
        await serials(registry, sort="size")
    assert (caught.value.code, caught.value.parameter) == ("invalid_parameter", "sort")
    with pytest.raises(RegistryError, match="no `person` with the id `9`"):
        await registry.get("person", 9)
    with pytest.raises(RegistryError, match="no type 'printer'; the types are person, computer"):
        await registry.get("printer", 1)
    with pytest.raises(ValueError, match="is not a part of a path"):
        await registry.get("computer", "../persons/1")
    with pytest.raises(ValueError, match="control character detected in headers"):
        await anext(registry.changes(after="a\r\nX: y"))


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (b"abc", TypeError, "bytes is not JSON serializable"),
        ([1], TypeError, "a list may have only resources, not 1"),
        (float("nan"), ValueError, "not JSON compliant"),
        ("\ud800", ValueError, "surrogates not allowed"),
        (2**70, RegistryError, "failed with status 422: Not a valid string"),
    ],
)
async def test_values_that_json_cannot_express_are_not_sent(
    value: object, kind: type[Exception], message: str, registry: Client
) -> None:
    with pytest.raises(kind, match=message):
        await registry.create("computer", serial=value)
    assert await serials(registry) == []


async def test_operations_are_executed_or_rejected_together(registry: Client) -> None:
    add = [
        {"op": "add", "data": {"type": "computer", "attributes": {"serial": letter}}}
        for letter in "ab"
    ]
    assert [result["data"]["id"] for result in await registry.execute(add)] == ["1", "2"]
    with pytest.raises(Conflict) as caught:
        await registry.execute(add)
    assert caught.value.pointer == "/atomic:operations/0/data/attributes/serial"


async def test_changes_continue_at_each_position(registry: Client, unique_api: Api) -> None:
    registry.pause_seconds = 0.01
    start = await registry.position()
    add = [
        {"op": "add", "data": {"type": "computer", "attributes": {"serial": letter}}}
        for letter in "ab"
    ]
    await registry.execute(add)
    assert unique_api.client.app
    feed = unique_api.client.app[FOLLOWERS]
    seen = []
    async with asyncio.timeout(30), aclosing(registry.changes(after=start)) as changes:
        async for change in changes:
            seen.append((change.op, change.resource["serial"], change.position))
            if len(seen) == 2:
                feed.end_all()
                await registry.create("computer", serial="c")
            if len(seen) == 3:
                break
    assert [pair[:2] for pair in seen] == [("add", "a"), ("add", "b"), ("add", "c")]
    assert seen[0][2] == start
    async with aclosing(registry.changes(after=seen[1][2], types=["computer"])) as changes:
        assert (await anext(changes)).resource["serial"] == "c"
    with pytest.raises(Gone):
        await anext(registry.changes(after="x"))


async def test_a_token_is_sent(serve: Serve, secured: Settings, grant: Grant) -> None:
    api = await serve(settings=secured)
    async with Client(f"{api.origin}/", token=await grant("read")) as registry:
        assert await serials(registry) == []
        with pytest.raises(RegistryError) as caught:
            await registry.create("computer", serial="SN-1")
        assert (caught.value.status, caught.value.code) == (403, "insufficient_scope")

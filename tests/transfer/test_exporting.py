"""Exports, and round trips: into an empty registry, and into the same one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from registry.capacity import Capacity
from registry.jsonapi.query import Query
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage import Repository, connect
from registry.transfer.exporter import Selection, read_database
from tests.conftest import Grant, Serve
from tests.devices import WITH_DEVICES
from tests.support import Api, Database
from tests.transfer.conftest import RunCommand

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.text(st.sampled_from("=+-@;,'\"\t\n a\u00e4") | CHARACTERS, min_size=1, max_size=12)
ATTRIBUTES = st.fixed_dictionaries(
    {
        "name": TEXTS,
        "contact": st.sampled_from([None, "a@x.org", "A@x.org"]),
        "size": st.none() | st.integers(-(2**63), 2**63 - 1),
        "rank": st.sampled_from([None, 7]),
        "price": st.sampled_from([None, "-1.50", "0", "12.5"]),
        "active": st.none() | st.booleans(),
        "bought": st.none() | st.dates().map(str),
        "seen": st.sampled_from([None, "2026-02-28T12:30:00.000Z"]),
        "color": st.sampled_from(["red", "blue"]),
        "note": st.none() | TEXTS,
    }
)
"""The attributes of devices; some are namesakes."""


@pytest.fixture
def _with_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands know the type that only tests declare."""
    monkeypatch.setattr("registry.resources.types_file.RESOURCES", WITH_DEVICES)


@pytest.fixture(autouse=True)
def _database_variables(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.mongodb_uri is not None
    monkeypatch.setenv("MONGODB_URI", settings.mongodb_uri)
    monkeypatch.setenv("REGISTRY_DATABASE", settings.database)


async def content(api: Api) -> list[Any]:
    """Return the attributes of all resources, and of their targets, in the order of the ids."""
    shown = []
    for path in ("/persons?", "/computers?include=owner", "/devices?include=holder"):
        document = (await api.get(path)).document
        names = {one["id"]: one["attributes"] for one in document.get("included", ())}
        for one in document["data"]:
            links = one.get("relationships", {}).values()
            targets = [link["data"] and names[link["data"]["id"]] for link in links]
            shown.append((one["attributes"], targets))
    return shown


async def delete_all(api: Api) -> None:
    for path in ("computers", "devices", "persons"):
        resources = (await api.get(f"/{path}")).data
        refs = [{"type": one["type"], "id": one["id"]} for one in resources]
        if refs:
            assert (await api.operate(*({"op": "remove", "ref": one} for one in refs))).status < 300


async def fill(api: Api, devices: Sequence[tuple[dict[str, Any], bool]]) -> None:
    """Create two namesakes, a computer of the second, and devices, some of the second."""
    ids = [await api.person("Ada", "=King") for _ in range(2)]
    await api.computer("A-1", owner=ids[1])
    holder = {"holder": {"data": {"type": "person", "id": ids[1]}}}
    for attributes, is_held in devices:
        data = {"type": "device", "attributes": attributes, "relationships": holder}
        if not is_held:
            del data["relationships"]
        assert (await api.post("/devices", data)).status == 201


@hypothesis_settings(max_examples=8)
@given(devices=st.lists(st.tuples(ATTRIBUTES, st.booleans()), min_size=1, max_size=4))
@pytest.mark.usefixtures("_with_devices")
async def test_what_is_exported_can_be_imported_without_a_loss(
    devices: list[tuple[dict[str, Any], bool]], serve: Serve, run: RunCommand, tmp_path: Path
) -> None:
    api = await serve(WITH_DEVICES)
    await delete_all(api)
    await fill(api, devices)
    before = await content(api)
    types = ("person", "computer", "device")
    files = {"all.ndjson": ()} | {f"{one}.csv": ("--type", one) for one in types}
    for name, options in files.items():
        (tmp_path / name).unlink(missing_ok=True)
        done = await run("export", *options, tmp_path / name)
        assert done.status == 0, done.errors
        done = await run("import", "--url", api.origin, *options, "--replace", tmp_path / name)
        assert (done.status, done.output.split(" ")[:2]) == (0, ["left", "unchanged"]), done
    assert await content(api) == before
    await delete_all(api)
    done = await run("import", "--url", api.origin, "--create", tmp_path / "all.ndjson")
    assert done.status == 0, done.errors
    assert await content(api) == before
    await delete_all(api)
    other = ("--type", "device", "--create", "--map", "holder.id=")  # an id of before
    done = await run("import", "--url", api.origin, *other, tmp_path / "device.csv")
    assert done.status == 0, done.errors
    created = [each["attributes"] for each in (await api.get("/devices")).data]
    for shown, (attributes, _) in zip(created, devices, strict=True):
        assert attributes.items() <= shown.items()


@pytest.fixture
async def staff(api: Api) -> Api:
    """A registry with three persons, a computer of the first, and one without an owner."""
    ada = await api.person("Ada", "Lovelace", email="ada@x.org")
    await api.person("Alan", "Turing")
    await api.person("Zoë", "O'Neil")
    await api.computer("A-1", owner=ada)
    await api.computer("C-1")
    return api


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--type", "computer"), ["id,serial,owner.id", "1,A-1,1", "2,C-1,"]),
        (
            ("--type", "computer", "--fields=owner.full_name,serial,owner.email"),
            ["owner.full_name,serial,owner.email", "Ada Lovelace,A-1,ada@x.org", ",C-1,"],
        ),
        (
            ("--type", "person"),
            [
                "id,first_name,last_name,full_name,email",
                "1,Ada,Lovelace,Ada Lovelace,ada@x.org",
                "2,Alan,Turing,Alan Turing,",
                "3,Zoë,O'Neil,Zoë O'Neil,",
            ],
        ),
        (
            ("--type=person", "--filter=last_name[ne]=Turing", "--sort=-id", "--fields=last_name"),
            ["last_name", "O'Neil", "Lovelace"],
        ),
        (
            (
                "--type=person",
                '--filter=[{"name": "full_name", "op": "prefix", "val": "Al"}]',
                "--fields=id",
            ),
            ["id", "2"],
        ),
        (
            ("--type=computer", "--filter=owner.last_name=Lovelace", "--fields=owner"),
            ["owner.id", "1"],
        ),
    ],
)
@pytest.mark.parametrize("is_api", [False, True], ids=["database", "api"])
async def test_an_export_has_the_chosen_columns_rows_and_order(
    arguments: tuple[str, ...], expected: list[str], is_api: bool, staff: Api, run: RunCommand
) -> None:
    url = ("--url", staff.origin) if is_api else ()
    done = await run("export", "-", *arguments, *url)
    assert (done.status, done.output) == (0, "\ufeff" + "".join(f"{one}\r\n" for one in expected))


async def test_exports_over_the_api_and_from_the_database_are_the_same(
    staff: Api, run: RunCommand, settings: Settings, tmp_path: Path
) -> None:
    one, other = tmp_path / "1.ndjson", tmp_path / "2.ndjson"
    done = await run("export", one)
    wrote = f"Wrote 3 persons and 2 computers to {one}, from the database {settings.database} at "
    assert done.errors == [f"{wrote}{settings.mongodb_uri}"]
    done = await run("export", "--url", staff.origin, other)
    assert done.errors[0].endswith(f" to {other}, from {staff.origin}")
    assert one.read_bytes() == other.read_bytes()
    exists = await run("export", one)
    assert exists.status == 1
    assert "exists: choose another name or remove it" in exists.errors[0]


async def test_an_export_follows_pages(
    staff: Api, run: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.protocol.LARGEST_PAGE", 2)
    options = ("--type=person", "--sort=-last_name", "--fields=last_name")
    done = await run("export", "--url", staff.origin, *options, "-")
    assert done.output == "\ufefflast_name\r\nTuring\r\nO'Neil\r\nLovelace\r\n"


async def test_an_export_over_the_api_needs_a_token_that_may_read(
    serve: Serve, secured: Settings, grant: Grant, run: RunCommand
) -> None:
    url = (await serve(settings=secured)).origin
    refused = await run("export", "--url", url, "--type=person", "-")
    assert (refused.status, refused.output) == (1, "")
    assert refused.errors[0].endswith("set the variable REGISTRY_TOKEN to a valid access token")
    token = await grant("persons:read")
    done = await run("export", "--url", url, "--type=person", "-", REGISTRY_TOKEN=token)
    assert done.status == 0


@pytest.mark.usefixtures("staff")
async def test_a_stopped_export_names_the_check(
    database: Database, run: RunCommand, tmp_path: Path
) -> None:
    await database.persons.update_one(
        {"_id": 1}, {"$set": {"first_name": 7}}, bypass_document_validation=True
    )
    done = await run("export", tmp_path / "all.ndjson")
    assert done.status == 1
    reason = "registry: cannot write the export: The record persons/1 is not valid: "
    assert done.errors[-1].startswith(reason)
    assert done.errors[-1].endswith("; `./scripts/registry check` lists all such records")


@pytest.mark.usefixtures("staff")
async def test_an_export_shows_one_point_in_time(settings: Settings, database: Database) -> None:
    graph = Graph(RESOURCES)
    selections = [Selection(graph[one], (), (), Query()) for one in ("person", "computer")]
    async with connect(settings, graph) as connected:
        repository = Repository(connected, graph, Capacity.of(settings))
        async with aclosing(read_database(repository, graph, selections)) as chunks:
            assert len((await anext(chunks))[1]["data"]) == 3
            await database.computers.delete_many({})
            assert len((await anext(chunks))[1]["data"]) == 2
        await repository.close()

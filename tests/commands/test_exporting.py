"""Exports, and round trips: into an empty registry, and into the same one."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from registry.resources.types_file import TypesFile
from registry.settings import Settings
from tests.commands.conftest import RunCommand
from tests.conftest import Serve
from tests.support import Api, Database, complete_record

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
        "note": st.none() | TEXTS | st.just("=\u202e'" * 85),
    }
)
"""The attributes of devices; some are namesakes."""


DEVICE = """
[device]
collection = "devices"
name    = {type = "text", required = true}
note    = "text"
contact = "email"
color   = {enum = ["red", "green", "blue"], default = "red"}
active  = "boolean"
size    = "integer"
price   = "decimal"
bought  = "date"
seen    = "datetime"
rank    = {type = "integer", default = 7, nullable = true}
holder  = {link = "person", inverse = "devices"}
"""
"""A type with attributes of all types."""


async def content(api: Api) -> list[Any]:
    """Return the attributes of all resources, and of their targets, in the order of the ids."""
    shown = []
    for path in ("/persons?", "/computers?include=owner", "/devices?include=holder"):
        document = (await api.get(path)).document
        names = {
            resource["id"]: resource["attributes"] for resource in document.get("included", ())
        }
        for resource in document["data"]:
            links = resource.get("relationships", {}).values()
            targets = [link["data"] and names[link["data"]["id"]] for link in links]
            shown.append((resource["attributes"], targets))
    return shown


async def delete_all(api: Api) -> None:
    for path in ("computers", "devices", "persons"):
        resources = (await api.get(f"/{path}")).data
        refs = [{"type": resource["type"], "id": resource["id"]} for resource in resources]
        if refs:
            assert (await api.operate(*({"op": "remove", "ref": ref} for ref in refs))).status < 300


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


@hypothesis_settings(max_examples=5)
@given(devices=st.lists(st.tuples(ATTRIBUTES, st.booleans()), min_size=1, max_size=4))
async def test_an_export_can_be_imported_without_loss(
    devices: list[tuple[dict[str, Any], bool]],
    serve: Serve,
    settings: Settings,
    run: RunCommand,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "types.toml").write_text(DEVICE)
    monkeypatch.setenv("REGISTRY_TYPES", str(tmp_path / "types.toml"))
    api = await serve(settings=replace(settings, types=TypesFile(DEVICE)))
    await delete_all(api)
    await fill(api, devices)
    before = await content(api)
    types = ("person", "computer", "device")
    files = {"all.ndjson": ()} | {f"{type_}.csv": ("--type", type_) for type_ in types}
    files["holders.csv"] = files["device.csv"]
    for name, options in files.items():
        (tmp_path / name).unlink(missing_ok=True)
        if name == "holders.csv":
            path = "/devices?include=holder"
            async with api.client.get(path, headers={"Accept": "text/csv"}) as response:
                (tmp_path / name).write_bytes(await response.read())
        else:
            done = await run("export", "--url", api.origin, *options, tmp_path / name)
            assert done.status == 0, done.errors
        replaces = ["--replace"] if name.endswith("csv") else []
        done = await run("import", "--url", api.origin, *options, *replaces, tmp_path / name)
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
            ["owner.full_name,owner.email,serial", "Ada Lovelace,ada@x.org,A-1", ",,C-1"],
        ),
        (
            (
                "--type=person",
                "--filter=last_name[ne]=Lovelace",
                '--filter=[{"name": "full_name", "op": "prefix", "val": "A"}]',
                "--sort=-id",
                "--fields=last_name,id",
            ),
            ["last_name,id", "Turing,2"],
        ),
        (
            ("--type=computer", "--filter=owner.last_name=Lovelace", "--fields=owner"),
            ["owner.id", "1"],
        ),
    ],
)
async def test_an_export_has_the_chosen_columns_rows_and_order(
    arguments: tuple[str, ...], expected: list[str], staff: Api, run: RunCommand
) -> None:
    done = await run("export", "-", *arguments, "--url", staff.origin)
    assert (done.status, done.output) == (
        0,
        "\ufeff" + "".join(f"{wanted}\r\n" for wanted in expected),
    )


@pytest.mark.parametrize(
    ("suffix", "options", "written"),
    [
        ("ndjson", (), "3 persons and 3 computers"),
        ("ndjson", ("--type=assignment",), "1 assignment"),
        ("csv", ("--type=computer",), "3 computers"),
    ],
)
async def test_an_export_reports_what_it_has_written(
    suffix: str, options: tuple[str, ...], written: str, staff: Api, run: RunCommand, tmp_path: Path
) -> None:
    await staff.computer('"\n"\n""\r\n')
    command = ("export", "--url", staff.origin, *options, tmp_path / f"all.{suffix}")
    assert (await run(*command)).errors == [
        f"Wrote {written} to {command[-1]}, from {staff.origin}"
    ]
    exists = await run(*command)
    assert exists.status == 1
    assert "exists: choose another name or remove it" in exists.errors[0]


async def test_revisions_are_exported_of_a_service_that_keeps_them(
    serve: Serve, settings: Settings, run: RunCommand
) -> None:
    api = await serve(settings=replace(settings, revisions=30))
    await api.computer("A", await api.person("Ada", "King"))
    arguments = ("export", "-", "--url", api.origin, "--type=revision")
    unknown = await run(*arguments)
    assert (unknown.status, len(unknown.errors)) == (2, 1)
    whole = await run(*arguments, REGISTRY_REVISIONS="30")
    (columns, *rows) = whole.output.splitlines()
    assert columns == "\ufeffid,at,author,action,before,after,resource.type,resource.id"
    assert [row.rpartition('",')[2] for row in rows] == ["person,1", "computer,1"]
    fields = "--fields=action,after,resource"
    done = await run(*arguments, fields, "--sort=-id", REGISTRY_REVISIONS="30")
    assert (done.status, done.output.splitlines()) == (
        0,
        [
            "\ufeffaction,after,resource.type,resource.id",
            'created,"{""serial"":""A"",""owner"":{""type"":""person"",""id"":""1""}}",computer,1',
            'created,"{""first_name"":""Ada"",""last_name"":""King""}",person,1',
        ],
    )


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--fields=phone", "--fields: Unknown fields of `person`: `phone`"),
        ("--fields=computers", "--fields: A CSV document has columns for"),
        ("--filter=nam=Ada", "--filter: Unknown filter field `nam`"),
        ("--filter=[1", "--filter: "),
        ("--sort=nam", "--sort: Unknown sort field `nam`"),
    ],
)
async def test_an_option_that_the_service_refuses_leaves_no_file(
    option: str, reason: str, api: Api, run: RunCommand, tmp_path: Path
) -> None:
    path = tmp_path / "all.csv"
    done = await run("export", "--url", api.origin, "--type=person", option, path)
    assert (done.status, len(done.errors), os.listdir(tmp_path)) == (2, 1, [])  # noqa: PTH208 - names
    assert reason in done.errors[0]


async def test_an_export_that_ends_early_leaves_no_file(
    api: Api, database: Database, run: RunCommand, tmp_path: Path
) -> None:
    records = [complete_record({"_id": id_, "serial": f"S{id_}"}) for id_ in range(1, 3_000)]
    await database.computers.insert_many(records)
    await database.computers.update_one(
        {"_id": 2_999}, {"$set": {"serial": b"no text"}}, bypass_document_validation=True
    )
    done = await run("export", "--url", api.origin, "--type=computer", tmp_path / "all.csv")
    assert (done.status, os.listdir(tmp_path)) == (1, [])  # noqa: PTH208 - the names
    reason = "the service ended its response to /computers early: see its log"
    assert done.errors[-1] == f"registry: cannot write the export: {reason}"

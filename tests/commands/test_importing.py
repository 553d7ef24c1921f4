"""Imports: what a file creates and changes, what a second import does, what is reported."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from registry.client.transport import member
from registry.commands import import_
from registry.commands.arguments import TOKEN_VARIABLE
from registry.commands.import_ import LINE_SECONDS, Tally
from registry.commands.seed import generate
from registry.model.graph import Graph
from registry.program import note
from registry.resources import RESOURCES
from registry.resources.types_file import read_types
from registry.settings import Settings
from tests.commands.conftest import RunCommand, emails, fleet
from tests.conftest import Grant, Serve
from tests.support import Api

HEADER = "serial,owner.email,owner.first_name,owner.last_name\n"
SHEET = f"{HEADER}A-1,ada@x.org,Ada,Lovelace\nA-2,ada@x.org,Ada,Lovelace\nB-1,,,\n"
KEY = ("--key", "serial")
NOTHING = {"rows": 0, "created": {}, "updated": {}, "unchanged": {}, "invalid": 0}


def inventory(computers: int = 300, persons: int = 130) -> str:
    """Return a sheet with a row per computer, and the columns of its owner."""
    owners = [f"p{n}@x.org,First{n},Last{n % 7}" for n in range(persons)]
    return HEADER + "".join(f"SN-{n},{owners[n % persons]}\n" for n in range(computers))


async def test_a_row_per_computer_makes_each_owner_once(api: Api, import_text: RunCommand) -> None:
    first = await import_text(inventory(2_500, 1_200), *KEY)
    assert (first.status, first.errors) == (0, [])
    created = "created 1,200 persons and 2,500 computers"
    assert first.output.startswith(f"{created} at {api.origin}, in ")
    second = await import_text(inventory(2_500, 1_200), *KEY)
    assert second.output.startswith("left unchanged 2,500 computers at ")
    assert len(await fleet(api)) == 2_500
    assert len(set(await emails(api))) == len(await emails(api)) == 1_200


async def test_without_a_key_a_repeated_row_stops(api: Api, import_text: RunCommand) -> None:
    done = await import_text(f"{SHEET}A-1,,,\n")
    assert done.status == 2
    assert "Line 5 repeats line 2. Name what tells computers apart by --key" in done.errors[0]
    assert await fleet(api) == {}
    assert (await import_text(SHEET)).status == 0
    again = await import_text(SHEET)
    assert again.status == 2
    assert "Line 2 repeats what is stored, the `computer` 1. Name what" in again.errors[0]
    assert "apart by --key, one or more of `serial`" in again.errors[0]
    assert len(await fleet(api)) == 3
    refused = await import_text(SHEET, "--create", *KEY)
    assert refused.status == 2
    assert refused.errors[0].endswith("fleet.csv: Rows that are all new resources have no key.")
    created = await import_text(SHEET, "--create", "--key", "owner.email")
    assert "created 3 computers" in created.output
    assert len((await api.get("/computers")).data) == 6


@pytest.mark.parametrize("id_", ["7", "0", "-5", "99999999999999999999"])
async def test_an_id_that_no_resource_has_is_reported_as_it_is_written(
    id_: str, api: Api, import_text: RunCommand
) -> None:
    done = await import_text(f"id,serial\n{id_},A\n")
    assert done.errors[0].startswith(
        f"line 2, column id: There is no `computer` with the id `{id_}`."
    )
    for sheet in (f"serial,owner.id\nB,{id_}\n", f"serial,owner.id,owner.last_name\nB,{id_},X\n"):
        done = await import_text(sheet, *KEY)
        assert done.errors[0].startswith(
            f"line 2, column owner.id: There is no `person` with the id `{id_}`"
        )
    assert await fleet(api) == {}
    done = await import_text(f"id,serial\n{id_},A\n", "--create")
    assert done.output.startswith("created 1 computer")


async def test_an_ambiguous_match_is_an_invalid_row(api: Api, import_text: RunCommand) -> None:
    for _ in range(2):
        await api.person("Ada", email="ada@x.org")
        await api.computer("A-1")
    done = await import_text("serial\nA-1\nA-2\n", *KEY)
    assert done.errors == [
        "line 2, column serial: This is ambiguous: several computers match, such as 1, 2."
    ]
    done = await import_text("serial,owner.email\nA-3,ada@x.org\n")
    assert done.errors == [
        "line 2, column owner.email: This is ambiguous: several persons match, such as 1, 2."
    ]
    assert len((await api.get("/computers")).data) == 3


async def test_an_empty_cell_removes_only_with_replace_and_nothing_required(
    api: Api, import_text: RunCommand
) -> None:
    await import_text(SHEET, *KEY)
    taken_back = "serial,owner.email\nA-1,\nA-2,ada@x.org\n"
    assert (await import_text(taken_back, *KEY)).output.startswith("left unchanged 2 computers")
    done = await import_text(taken_back, *KEY, "--replace")
    assert done.output.startswith("changed 1 computer, left unchanged 1 computer")
    assert await fleet(api) == {"A-1": None, "A-2": "Ada Lovelace", "B-1": None}
    person = ("email,first_name,last_name\nada@x.org,,King\n", "--type", "person")
    done = await import_text(*person, "--replace")
    reason = "It is required: the cell must not be empty."
    assert (done.status, done.errors) == (1, [f"line 2, column first_name: {reason}"])
    assert (await import_text(*person)).output.startswith("changed 1 person")


@pytest.mark.parametrize(
    ("stored", "sheet"),
    [
        ("ada.king@x.org", "Ada.King@X.org"),
        ("Ada.King@x.org", "ada.king@x.org"),
        ("ADA.KING@X.ORG", "ada.king@x.org"),
    ],
)
async def test_email_addresses_match_in_any_case(
    stored: str, sheet: str, api: Api, import_text: RunCommand
) -> None:
    await api.person("Ada", "King", email=stored)
    rows = f"{HEADER}A-1,{sheet},Ada,King\nA-2,{sheet.upper()},Ada,King\n"
    assert (await import_text(rows)).output.startswith("created 2 computers")
    persons = f"first_name,last_name,email\nAda,King,{sheet}\n"
    done = await import_text(persons, "--type", "person")
    assert done.output.startswith("left unchanged 1 person")
    assert await emails(api) == [stored]


async def test_letters_that_differ_in_more_than_case_are_two_addresses(
    api: Api, import_text: RunCommand
) -> None:
    await api.person("Ada", "King", email="STRASSE@X.ORG")
    done = await import_text(f"{HEADER}A-1,straße@x.org,Ada,King\n")
    assert done.output.startswith("created 1 person and 1 computer")
    assert await emails(api) == ["STRASSE@X.ORG", "straße@x.org"]


async def test_a_row_that_contradicts_what_is_stored_or_an_earlier_row_is_invalid(
    api: Api, import_text: RunCommand
) -> None:
    await api.person("Ada", "King", email="ada@x.org")
    fill = "".join(f"F-{n},,,\n" for n in range(900))  # more than a request has
    sheet = (
        f"{HEADER}A-1,ada@x.org,Adda,King\nA-2,bob@x.org,,Byron\nA-3,cc@x.org,Cy,One\n"
        "A-4,CC@x.org,Cyd,Two\nA-5,cc@x.org,,One\nA-3,bob@x.org,Bob,Byron\n"
        f"{fill}B-1,cc@x.org,Cyd,One\nA-5,,,\n"
    )
    for options, origin in ((("--dry-run",), "`person` of an earlier row"), ((), "`person` 2")):
        done = await import_text(sheet, *KEY, *options)
        assert (done.status, done.errors) == (
            1,
            [
                "line 2, column owner.first_name: The `person` 1 has `Ada`.",
                "line 3, column owner.email: There is no `person` with this `email`. "
                "To create one, the row needs `owner.first_name`.",
                "line 5, column owner.first_name: The `person` of an earlier row has `Cy`.",
                "line 5, column owner.last_name: The `person` of an earlier row has `One`.",
                "line 7, column serial: The row repeats line 4: the same `serial`.",
                f"line 908, column owner.first_name: The {origin} has `Cy`.",
                "line 909, column serial: The row repeats line 6: the same `serial`.",
            ],
        )
    owners = {serial: name for serial, name in (await fleet(api)).items() if name}
    assert owners == {"A-3": "Cy One", "A-5": "Cy One"}
    assert await emails(api) == ["ada@x.org", "cc@x.org"]
    done = await import_text("serial,owner.id,owner.email\nA-1,1,bob@x.org\n", *KEY)
    assert done.errors == ["line 2, column owner.email: The `person` 1 has `ada@x.org`."]


async def test_a_row_may_be_the_target_of_an_earlier_one(
    serve: Serve, settings: Settings, run: RunCommand, tmp_path: Path
) -> None:
    types, rooms = tmp_path / "types.toml", tmp_path / "rooms.csv"
    link = 'parent = {link = "room", inverse = "parts"}'
    types.write_text(f'[room]\ncollection = "rooms"\nname = "text"\n{link}\n')
    rooms.write_text("name,parent.name\nHall,House\nHouse,\n")
    api = await serve(settings=replace(settings, types=read_types(str(types))))
    done = await run("import", "--url", api.origin, "--types", types, "--type", "room", rooms)
    assert done.output.startswith("created 2 rooms, left unchanged 1 room at ")


async def test_a_person_without_an_address_is_found_by_all_values(import_text: RunCommand) -> None:
    rows = "first_name,last_name,email\nAda,Lovelace,\nAda,King,\nBob,Byron,b@x.org\n"
    options = ("--type", "person")
    assert (await import_text(rows, *options)).output.startswith("created 3 persons")
    assert (await import_text(rows, *options)).output.startswith("left unchanged 3 persons")


async def test_a_key_can_have_several_columns(api: Api, import_text: RunCommand) -> None:
    await api.person("Ada", "Lovelace", email="old@x.org")
    rows = "first_name,last_name,email\nAda,Lovelace,new@x.org\nAda,King,king@x.org\n"
    done = await import_text(rows, "--type", "person", "--key", "first_name,last_name")
    assert done.output.startswith("created 1 person, changed 1 person")
    assert await emails(api) == ["king@x.org", "new@x.org"]


async def test_a_dry_run_lists_errors_and_stores_nothing(api: Api, import_text: RunCommand) -> None:
    rows = [f"S-{n},,p{n}@x.org,First,Last\n" for n in range(1_500)]
    rows[3] = "S-3,,nonsense,First,Last\n"
    rows[700] = "S-700,999,,,\n"
    rows[701] = "S-701,998,p@x.org,,\n"
    rows[800:1_100:5] = [f",,p{n}@x.org,First,Last\n" for n in range(800, 1_100, 5)]
    rows[1_400] = f"{'x' * 256},,p@x.org,,Last\n"
    sheet = HEADER.replace(",", ",owner.id,", 1) + "".join(rows)
    dry = await import_text(sheet, *KEY, "--dry-run")
    assert dry.status == 1
    assert [re.split(" Longer| Length| Not| Missing| Ids of", line)[0] for line in dry.errors] == [
        "line 5, column owner.email:",
        "line 702, column owner.id: There is no `person` with the id `999`.",
        "line 703, column owner.id: There is no `person` with the id `998`.",
        *(f"line {n + 2}, column serial:" for n in range(800, 1_100, 5)),
        "line 1402, column serial:",
    ]
    created = "created 1,436 persons and 1,436 computers"
    assert dry.output.startswith(f"dry run, nothing is stored: {created}")
    assert await fleet(api) == {}
    done = await import_text(sheet, *KEY)
    assert done.errors == dry.errors
    assert done.output.startswith(created)


async def test_a_line_that_is_too_long_is_an_invalid_row(api: Api, import_text: RunCommand) -> None:
    rows = "".join(f"S-{n}\n" for n in range(1_000))
    done = await import_text(f"serial\n{rows}{'x' * (2**20 + 1)}\nA\n", *KEY)
    assert done.status == 1
    assert done.errors == ["line 1002: The row is longer than 1,048,576 characters."]
    assert len(await fleet(api)) == 1_001


async def test_an_unknown_column_stops_with_remedy(api: Api, import_text: RunCommand) -> None:
    sheet = "Asset Tag,Notes\nA-1,heavy\n"
    done = await import_text(sheet)
    assert done.status == 2
    names = "`id`, `serial`, `owner.id`, `owner.first_name`, `owner.last_name`, `owner.email`"
    assert f"The column `Asset Tag` does not fit: a `computer` has {names}." in done.errors[0]
    assert "by --map COLUMN=NAME" in done.errors[0]
    assert (await import_text(sheet, "--map", "Asset Tag=serial")).status == 2
    done = await import_text(sheet, "--map", "Asset Tag=serial", "--map", "Notes=")
    assert done.status == 0
    assert await fleet(api) == {"A-1": None}
    done = await import_text(sheet, "--map", "Tag=serial")
    assert "The file has no column `Tag`" in done.errors[0]


async def test_a_sheet_in_another_encoding_stops_with_remedy(
    api: Api, import_text: RunCommand
) -> None:
    rows = HEADER.replace(",", ";") + "A-2;;;\r\nA-1;joerg@x.org;Jörg;Weiß\r\n"
    done = await import_text(rows.encode("cp1252"), *KEY)
    assert done.status == 2
    assert "The file is not UTF-8: byte 0xf6 in line 3. Save it as CSV UTF-8" in done.errors[0]
    assert "--encoding windows-1252" in done.errors[0]
    assert await fleet(api) == {}


async def test_the_rows_of_ndjson_link_by_lid_or_by_id(api: Api, import_text: RunCommand) -> None:
    bob = await api.person("Bob", "Byron")
    ada = {"type": "person", "lid": "a", "attributes": {"first_name": "Ada", "last_name": "King"}}

    def computer(serial: str, **owner: str) -> dict[str, object]:
        link = {"owner": {"data": {"type": "person", **owner}}}
        return {"type": "computer", "attributes": {"serial": serial}, "relationships": link}

    rows = [ada, computer("A-1", lid="a"), computer("B-1", id=bob), computer("C-1", lid="c")]
    text = b"\n".join(map(orjson.dumps, rows))
    done = await import_text(text, name="fleet.ndjson")
    assert done.errors == [
        "line 4, column owner: No preceding operation adds a `person` with this local id."
    ]
    assert await fleet(api) == {"A-1": "Ada King", "B-1": "Bob Byron"}


async def test_invalid_lines_of_ndjson_are_reported_and_the_others_stored(
    api: Api, import_text: RunCommand
) -> None:
    ada, bob = (
        {"type": "person", "attributes": {"first_name": name, "last_name": "King"}}
        for name in ("Ada", "Bob")
    )
    owner = {"data": {"type": "person", "lid": "nobody"}}
    computer = {
        "type": "computer",
        "attributes": {"serial": "A"},
        "relationships": {"owner": owner},
    }
    unnamed = {"type": "person", "attributes": {"last_name": "King"}}
    lines = [
        orjson.dumps(ada),
        b'{"type": "person"',
        b'{"type": "person", "attributes": {"first_name": "\xff"}}',
        b'["person"]',
        orjson.dumps({"attributes": ada["attributes"]}),
        b"",
        orjson.dumps(computer),
        orjson.dumps({"type": "person", "lid": "x" * 2_500_000}),
        orjson.dumps(unnamed),
        orjson.dumps(bob),
    ]
    done = await import_text(b"\n".join(lines), name="staff.ndjson")
    assert done.status == 1
    of_another_type = "This is not a resource object of one of these types: person, computer"
    assert [re.split(": (?=unexpected|invalid|str)|, ass", line)[0] for line in done.errors] == [
        "line 2: This is not JSON",
        "line 3: This is not JSON",
        f"line 4: {of_another_type}",
        f"line 5: {of_another_type}",
        "line 7, column owner: No preceding operation adds a `person` with this local id.",
        "line 8: The line is longer than 1,000,000 bytes.",
        "line 9, column first_name: Missing data for required field.",
    ]
    assert "skipped 7 invalid rows" in done.output
    persons = (await api.get("/persons")).data
    assert [person["attributes"]["first_name"] for person in persons] == ["Ada", "Bob"]
    assert await fleet(api) == {}


async def test_a_unique_attribute_is_the_key_and_a_taken_value_is_reported(
    serve: Serve, settings: Settings, run: RunCommand, tmp_path: Path
) -> None:
    api = await serve(settings=replace(settings, unique=("computer.serial",)))
    ada = await api.person("Ada", "Lovelace", email="ada@x.org")
    await api.computer("A-1", owner=ada)
    path = tmp_path / "fleet.csv"
    await api.computer("A-2")
    path.write_text("id,serial\n1,A-2\n2,A-3\n")
    command = ("import", "--url", api.origin, "--type", "computer", path)
    dry = await run(*command, "--dry-run")
    assert dry.errors == ["line 2, column serial: Another `computer` has this `serial`."]
    assert await fleet(api) == {"A-1": "Ada Lovelace", "A-2": None}
    done = await run(*command)
    assert done.errors == dry.errors
    assert await fleet(api) == {"A-1": "Ada Lovelace", "A-3": None}


async def test_a_missing_token_is_named(
    serve: Serve, secured: Settings, grant: Grant, run: RunCommand
) -> None:
    url = (await serve(settings=secured)).origin
    few = ("seed", "--url", url, "--persons", "1", "--computers", "1")
    refused = await run(*few)
    assert refused.status == 1
    assert refused.errors[-1].endswith("`: set the variable REGISTRY_TOKEN to a valid access token")
    assert (
        "the token in REGISTRY_TOKEN lacks a scope"
        in ((await run(*few, REGISTRY_TOKEN=await grant("read"))).errors[-1])
    )
    split = (await run(*few, **{TOKEN_VARIABLE: "reg_\nreg_"})).errors
    assert split == ["registry: REGISTRY_TOKEN has control characters, which no token has"]
    # As a file that was written on Windows has it.
    assert (await run(*few, REGISTRY_TOKEN=f"{await grant('write')}\r")).status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("seed", "--persons", "-1"), "--persons: '-1' is not a valid count"),
        (("seed", "--computers", "many"), "--computers: 'many' is not a valid count"),
        (("seed", "--url", "127.0.0.1"), "--url: '127.0.0.1' is not a base URL"),
        (("seed", "--url", "http://127.0.0.1:99999"), "--url: "),
        (("import",), "FILE"),
        (("import", "f.csv"), "--type: name the type of a CSV file: person or computer"),
        (("import", "--url", "ftp://h", "f.ndjson"), "--url: 'ftp://h' is not a base URL"),
        (("import", "--map", "nam", "f.ndjson"), "--map: 'nam' is not COLUMN=NAME"),
        (("import", "--key", "id", "f.ndjson"), "--key: only CSV files have it"),
        (("import", "--map", "a=b", "f.ndjson"), "--map: only CSV files have it"),
        (("import", "--replace", "--format=ndjson", "f"), "--replace: only CSV files have it"),
        (("import", "--type=person", "f.jsonl"), "--type: only CSV files have it"),
        (("import", "--encoding=utf-16", "f.ndjson"), "--encoding: only CSV files have it"),
        (("export", "f.csv"), "--type: name the type to export: person or computer or assignment"),
        (("export", "--type=person", "--sort", "-nam", "f"), "--sort: "),
    ],
)
async def test_invalid_options_are_one_line(
    arguments: tuple[str, ...], message: str, run: RunCommand
) -> None:
    done = await run(*arguments)
    assert (done.status, done.output, len(done.errors)) == (2, "", 1)
    assert message in done.errors[0]


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts calls of read")
async def test_lines_are_read_in_large_pieces(run: RunCommand, tmp_path: Path) -> None:
    def calls_of_read() -> int:
        return int(Path("/proc/self/io").read_text().partition("syscr: ")[2].split()[0])

    path = tmp_path / "blank.ndjson"
    path.write_bytes(b"\n" * 100_000)
    before = calls_of_read()
    await run("import", "--url", "http://127.0.0.1:1", path)
    assert calls_of_read() - before < 1_000


async def test_an_unreadable_file_is_one_line(run: RunCommand) -> None:
    done = await run("import", "--format", "ndjson", "/proc/self/mem")
    assert (done.status, done.output) == (2, "")
    assert done.errors == ["registry: /proc/self/mem: Input/output error"]


def test_progress_lines_are_written_at_intervals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = [LINE_SECONDS - 1, LINE_SECONDS + 1, LINE_SECONDS + 2, 2 * LINE_SECONDS + 1]
    monkeypatch.setattr(import_, "monotonic", iter(times).__next__)
    tally = Tally(Graph(RESOURCES), "URL", started=0.0, shown=0.0)
    for number, _ in enumerate(times, 1):
        tally.add({"meta": NOTHING | {"rows": number * 3_000}})
    assert capsys.readouterr().err == (
        "6,000 rows, 1,000 per second\n12,000 rows, 1,091 per second\n"
    )


def test_nothing_is_shown_without_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    Tally(Graph(RESOURCES), "URL", shown=-LINE_SECONDS).add({"meta": NOTHING})
    note("line 2: not valid")
    assert capsys.readouterr().out == ""


async def test_a_seed_without_its_extra_says_what_to_install(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faker", None)  # as if it were not installed
    done = await run("seed", "--url", "http://127.0.0.1:1")
    assert done.status == 1
    assert done.errors == [
        "registry: `seed` needs Faker: install the extra `seed`, as in pip install '.[seed]'"
    ]


def test_a_seed_produces_the_same_data_in_every_version_with_some_values_missing() -> None:
    data = list(generate(1_000, 1_000, 1))
    persons, computers = [each["attributes"] for each in data[:1_000]], data[1_000:]
    email = "dennis.boone@example.com"
    assert persons[0] == {"first_name": "Dennis", "last_name": "Boone", "email": email}
    owners = [member(each, "relationships", "owner", "data", "lid") for each in computers]
    assert owners[:3] == ["245", "1", "562"]
    serials = [each["attributes"]["serial"] for each in computers[:3]]
    assert serials == ["C02210200001", "PF241100002", "C02184200003"]
    emails = [each.get("email") for each in persons]
    assert 50 < emails.count(None) < 150
    assert len(set(emails)) == 1_001 - emails.count(None)
    assert 50 < owners.count(None) < 150
    assert not any("relationships" in each for each in generate(0, 3, 1))

"""A file of types becomes a declaration, or is refused with one line."""

import os
from pathlib import Path

import pytest

from registry.model.graph import Graph
from registry.model.implicit_attributes import AUTHORSHIP
from registry.resources.types_file import (
    InvalidTypesFile,
    read_types,
)

FLEET = Path(__file__).parents[2] / "docs/fleet.toml"

PHONE = '[phone]\ncollection = "phones"\nx = "text"\n'


def written(directory: Path, text: str) -> str:
    (directory / "t.toml").write_text(text)
    return str(directory / "t.toml")


def test_the_documented_file_declares_attributes_a_type_and_the_history_of_its_link() -> None:
    graph = Graph(read_types(str(FLEET)).resources())
    added = ["model", "asset_tag", "status", "bought", "price"]
    assert list(graph["computer"].attributes) == ["serial", *added]
    assert list(graph["computer"].unique_attributes) == ["asset_tag"]
    assert graph["computer"].attributes["status"].default == "ready"
    assert list(graph["phone"].relationships) == ["owner", "phone_owner_periods"]
    assert {"phones", "phone_owner_periods"} <= graph["person"].relationships.keys()
    periods = graph["phone_owner_period"]
    assert list(periods.attributes) == ["since", "until", "phone_number", "owner_full_name"]


def attribute(options: str) -> str:
    return f"[computer]\n\nx = {options}\n"


INVALID: list[tuple[str, str]] = [
    ("\nx = ", "Invalid value"),
    ('[computer]\nx = "text"\nx = "text"', "Cannot overwrite a value"),
    ("a=" + "[" * 5000 + "]" * 5000, "nested too deeply"),
    ("x = 1e99999999999999999999", "1e99999999999999999999 is out of range"),
    ("x = 1", "`x` is not a table: declare a type as [x]"),
    ('[[computer]]\nx = "text"', "`computer` is not a table"),
    (attribute('"txt"'), "computer.x.type: Use text, email, integer, decimal, boolean,"),
    (attribute("{unique = true}"), "computer.x.type: Use text"),
    (attribute("5"), "computer.x.type: Not a valid string."),
    (
        attribute('{type = "text", requird = true}'),
        "computer.x.requird: Unknown field.",
    ),
    (attribute('{type = "text", required = 1}'), "computer.x.required: Not true or false."),
    (attribute('{enum = "a"}'), "computer.x.enum: Not a valid list."),
    *(
        (attribute(f"{{{options}}}"), "computer.x.enum")
        for options in ("enum = []", 'enum = ["a", "a"]', "enum = [1]", 'enum = [""]')
    ),
    (attribute('{type = "date", enum = ["a"]}'), "computer.x.enum: Only text can have one."),
    (attribute('{enum = ["a"], default = "b"}'), "computer.x.default: Not one of a."),
    *(
        (attribute(f'{{type = "{kind}", {option} = {value}}}'), f"computer.x.{option}: ")
        for option in ("default", "example")
        for kind, value in (
            ("text", '""'),
            ("text", "1.5"),
            ("text", "2026-01-01"),
            ("email", '"x"'),
            ("integer", "1.5"),
            ("integer", f"{2**63}"),
            ("decimal", "1e99"),
            ("decimal", "nan"),
            ("boolean", '"true"'),
            ("date", "2026-01-01T00:00:00Z"),
            ("datetime", "2026-01-01"),
            ("datetime", "2026-01-01T00:00:00"),
            ("datetime", "0001-01-01T00:00:00+23:59"),
            ("datetime", "9999-12-31T23:59:59-23:59"),
        )
    ),
    (
        attribute('{type = "text", required = true, default = "a"}'),
        "computer.x.default: A required attribute cannot have one.",
    ),
    (attribute('{type = "text", unique = true, default = "a"}'), "must not have a default"),
    (
        attribute('{type = "text", nullable = false}'),
        "computer.x.nullable: Without it, add required or a default.",
    ),
    ('[computer.x]\ntype = "text"\nuniqu = true', "computer.x.uniqu: Unknown field."),
    *(
        (f'[computer]\n"{name}" = "text"', f"`{name}` of computer is not a valid name: it")
        for name in ("id", "type", "links", "meta", "lid", "version", *AUTHORSHIP)
    ),
    *(
        (f'[computer]\n"{name}" = "text"', f"`{name}` of computer is not a valid name: use")
        for name in ("$x", "a.b", "_x", "x_", "X", "ä", "a b", "", "a" * 64)
    ),
    ('[computer]\nserial = "text"', "computer.serial exists: choose another name"),
    ('[computer]\nMeta = "text"', "computer.Meta exists: choose another name"),
    ('[computer]\nowner = "text"', "field of computer declared twice: owner"),
    ('[person]\ncomputers = "text"', "field of person declared twice: computers"),
    ('[computer]\nowner_period = "text"', "stored field of computer declared twice"),
    ('[person]\npassword = "text"', "person.password exists: choose another name"),
    ('[computer]\ncollection = "text"', "the collection of computer is computers"),
    ('[phone]\nnumber = "text"', 'needs its collection, such as collection = "phones"'),
    ('[phone]\ncollection = "phones"', "the new type phone needs an attribute"),
    ('[phone]\ncollection = "tokens"', "the collection tokens is reserved"),
    ('[revision]\ncollection = "phones"\nx = "text"', "revision: the type revision and the"),
    ('[phone]\ncollection = "revisions"\nx = "text"', "collection revisions are reserved: ch"),
    ('[phone]\ncollection = "persons"\nx = "text"', "collection declared twice: persons"),
    ('[phone]\ncollection = "a/b"\nx = "text"', "`a/b` of phone is not a valid name"),
    ('[assignment]\ncollection = "a"\nx = "text"', "type declared twice: assignment"),
    (
        PHONE + 'owner = {link = "people", inverse = "phones"}',
        "choose from person, computer, ph",
    ),
    (PHONE + 'owner = {link = "person", inverse = "email"}', "field of person declared twice"),
    (
        '[person]\ncomputers = {link = "person", inverse = "x"}',
        "field of person declared twice: computers",
    ),
    (PHONE + 'owner = {link = "person"}', "phone.owner.inverse: Missing data for required field."),
    (
        PHONE + 'owner = {link = "person", inverse = "p", unique = true}',
        "phone.owner.unique: Unknown field.",
    ),
    (PHONE + 'owner = {link = "person", inverse = "id"}', "`id` of person is not a valid name"),
    (
        PHONE + "".join(f'{x} = {{link = "person", inverse = "phones"}}\n' for x in "ab"),
        "field of person declared twice: phones",
    ),
    (
        PHONE + 'main = {link = "person", inverse = "phones"}\n'
        '[person]\nphones = {link = "phone", inverse = "main"}',
        "are each other's inverse: many-to-many links",
    ),
    ("[computer]\n" + "".join(f'a{n} = "text"\n' for n in range(10_000)), "allowed are 63"),
    (
        "".join(f'[t{n}]\ncollection = "c{n}"\nx = "text"\n' for n in range(60)),
        "allowed are 50",
    ),
    ("#" * (2**18 + 1), "larger than 262,144 bytes"),
]


@pytest.mark.parametrize(("text", "reason"), INVALID)
def test_a_mistake_is_one_line_with_its_place(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidTypesFile) as raised:
        read_types(name := written(tmp_path, text))
    message = str(raised.value)
    assert message.startswith(f"{name}: ")
    assert reason in message
    assert "\n" not in message


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(InvalidTypesFile, match="not a regular file"):
            read_types(str(path))


def test_types_may_link_to_each_other_and_to_themselves(tmp_path: Path) -> None:
    text = (
        '[person]\nmanager = {link = "person", inverse = "reports"}\n'
        f'main = {{link = "phone", inverse = "main_of"}}\n{PHONE}'
        'owner = {link = "person", inverse = "phones"}\n'
    )
    graph = Graph(read_types(written(tmp_path, text)).resources())
    own = {"manager", "reports", "person_manager_periods", "person_manager_periods_as_manager"}
    assert own <= graph["person"].relationships.keys()

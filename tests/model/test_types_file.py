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
    assert graph["computer"].added == {*added}


def attribute(options: str) -> str:
    return f"[computer]\n\nx = {options}\n"


INVALID: list[tuple[str, int | None, str]] = [
    ("\nx = ", 2, "Invalid value"),
    ('[computer]\nx = "text"\nx = "text"', 3, "Cannot overwrite a value"),
    ("a=" + "[" * 5000 + "]" * 5000, None, "nested too deeply"),
    ("x = 1", 1, "`x` is not a table: declare a type as [x]"),
    ('[[computer]]\nx = "text"', 1, "`computer` is not a table"),
    (attribute('"txt"'), 3, "computer.x has 'txt': use text, email, integer, decimal, boolean,"),
    (attribute("{unique = true}"), 3, "computer.x has no type: use text"),
    (attribute("5"), 3, "type of computer.x must be text"),
    (
        attribute('{type = "text", requird = true}'),
        3,
        "no option 'requird'; choose from type, enum",
    ),
    (attribute('{type = "text", required = 1}'), 3, "required of computer.x must be true or false"),
    (attribute('{enum = "a"}'), 3, "enum of computer.x must be a list of texts"),
    *(
        (attribute(f"{{{options}}}"), 3, "the enum of computer.x must be 1 to 100 different texts")
        for options in ("enum = []", 'enum = ["a", "a"]', "enum = [1]", 'enum = [""]')
    ),
    (attribute('{type = "date", enum = ["a"]}'), 3, "the enum of computer.x must be"),
    (attribute('{enum = ["a"], default = "b"}'), 3, "the default of computer.x: Not one of a."),
    *(
        (attribute(f'{{type = "{kind}", {option} = {value}}}'), 3, f"the {option} of computer.x: ")
        for option in ("default", "example")
        for kind, value in (
            ("text", '""'),
            ("email", '"x"'),
            ("integer", "1.5"),
            ("decimal", "1e99"),
            ("boolean", '"true"'),
            ("date", "2026-01-01T00:00:00Z"),
            ("datetime", "2026-01-01"),
            ("datetime", "2026-01-01T00:00:00"),
            ("datetime", "0001-01-01T00:00:00+23:59"),
            ("datetime", "9999-12-31T23:59:59-23:59"),
        )
    ),
    (attribute('{type = "text", required = true, default = "a"}'), 3, "it cannot be required"),
    (attribute('{type = "text", unique = true, default = "a"}'), 3, "must not have a default"),
    (attribute('{type = "text", nullable = false}'), 3, "must be required or nullable"),
    ('[computer.x]\ntype = "text"\nuniqu = true', 3, "no option 'uniqu'"),
    *(
        (f'[computer]\n"{name}" = "text"', 2, f"`{name}` of computer is not a valid name: it")
        for name in ("id", "type", "links", "meta", "lid", "version", *AUTHORSHIP)
    ),
    *(
        (f'[computer]\n"{name}" = "text"', 2, f"`{name}` of computer is not a valid name: use")
        for name in ("$x", "a.b", "_x", "x_", "X", "ä", "a b", "", "a" * 64)
    ),
    ('[computer]\nserial = "text"', 2, "computer.serial exists: choose another name"),
    ('[computer]\nowner = "text"', 2, "computer.owner exists"),
    ('[person]\ncomputers = "text"', 2, "person.computers exists"),
    ('[computer]\nowner_period = "text"', 2, "stored field of computer declared twice"),
    ('[person]\npassword = "text"', 2, "person.password exists: choose another name"),
    ('[computer]\ncollection = "text"', 2, "the collection of computer is computers"),
    ('[phone]\nnumber = "text"', 1, 'needs its collection, such as collection = "phones"'),
    ('[phone]\ncollection = "phones"', 1, "the new type phone needs an attribute"),
    ('[phone]\ncollection = "tokens"', 2, "the collection tokens is reserved"),
    ('[phone]\ncollection = "persons"\nx = "text"', 2, "collection declared twice: persons"),
    ('[phone]\ncollection = "a/b"\nx = "text"', 1, "`a/b` of phone is not a valid name"),
    ('[assignment]\ncollection = "a"\nx = "text"', 1, "type declared twice: assignment"),
    (
        PHONE + 'owner = {link = "people", inverse = "phones"}',
        4,
        "choose from person, computer, ph",
    ),
    (PHONE + 'owner = {link = "person", inverse = "email"}', 4, "field of person declared twice"),
    ('[person]\ncomputers = {link = "person", inverse = "x"}', 2, "person.computers exists"),
    (PHONE + 'owner = {link = "person"}', 4, "needs inverse"),
    (PHONE + 'owner = {link = "person", inverse = "p", unique = true}', 4, "no option 'unique'"),
    (PHONE + 'owner = {link = "person", inverse = "id"}', 4, "`id` of person is not a valid name"),
    (
        PHONE + "".join(f'{x} = {{link = "person", inverse = "phones"}}\n' for x in "ab"),
        5,
        "field of person declared twice: phones",
    ),
    (
        PHONE + 'main = {link = "person", inverse = "phones"}\n'
        '[person]\nphones = {link = "phone", inverse = "main"}',
        6,
        "are each other's inverse: many-to-many links",
    ),
    ("[computer]\n" + "".join(f'a{n} = "text"\n' for n in range(10_000)), 1, "allowed are 63"),
    (
        "".join(f'[t{n}]\ncollection = "c{n}"\nx = "text"\n' for n in range(60)),
        None,
        "allowed are 50",
    ),
    ("#" * (2**18 + 1), None, "larger than 262,144 bytes"),
]


@pytest.mark.parametrize(("text", "line", "reason"), INVALID)
def test_a_mistake_is_one_line_with_its_place(
    text: str, line: int | None, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"\.toml") as raised:
        read_types(name := written(tmp_path, text))
    message = str(raised.value)
    place = name if line is None else f"{name}, line {line}"
    assert message.startswith(f"{place}: ")
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

"""Invalid declarations fail at start, with a message that names them."""

from dataclasses import replace
from typing import Any

import pytest
from email_validator import EmailNotValidError, validate_email
from marshmallow import Schema, fields

from registry.model.attributes import EQUALITY, KINDS, ORDER
from registry.model.fields import ComputedText, Integer, String
from registry.model.graph import Graph
from registry.model.resource_type import InvalidDeclaration, Link, ResourceType
from registry.resources.computer import computer
from registry.resources.person import person


def declared(*unique: str, **attributes: fields.Field[Any]) -> ResourceType:
    schema = Schema.from_dict(dict(attributes))
    return ResourceType("monitor", "monitors", schema, unique=frozenset(unique))


def test_settings_can_make_further_attributes_unique() -> None:
    resource = declared("name", name=String(), size=Integer(), model=String(required=True))
    graph = Graph([resource])
    assert set(graph["monitor"].unique_attributes) == {"name"}
    more = graph.with_unique(["monitor.size", "monitor.name"])
    assert set(more["monitor"].unique_attributes) == {"name", "size"}


@pytest.mark.parametrize("name", ["monitor.x", "monitor.full", "monitor.kind", "other.size"])
def test_an_attribute_that_cannot_be_unique_is_named(name: str) -> None:
    resource = declared(
        size=Integer(), name=String(), full=ComputedText("name"), kind=String(load_default="a")
    )
    with pytest.raises(InvalidDeclaration) as raised:
        Graph([resource]).with_unique(["monitor.size", name])
    choices = "choose from monitor.size, monitor.name"
    assert str(raised.value) == f"{name!r} is not an attribute that can be unique; {choices}"


class Meters(fields.Integer):
    """A class of fields with a kind of its own."""

    kind = replace(KINDS[fields.Integer], operators=EQUALITY)


@pytest.mark.parametrize(
    ("attribute", "defect"),
    [
        (fields.String(data_key="Name"), "monitor.size must not have `data_key` or `attribute`"),
        (fields.String(attribute="Name"), "monitor.size must not have `data_key` or `attribute`"),
        (fields.Raw(), "the schema of monitor: size is a Raw, whose stored form is not known"),
        (ComputedText("name"), "monitor.size is computed from name, which is not a text attribute"),
        (fields.List(fields.String()), "the schema of monitor: size is a List, whose stored"),
    ],
)
def test_a_field_that_cannot_be_stored_is_refused(
    attribute: fields.Field[Any], defect: str
) -> None:
    with pytest.raises(InvalidDeclaration, match=f"^{defect}"):
        Graph([declared(size=attribute)])


def test_a_class_of_fields_can_have_a_kind_of_its_own_and_a_field_no_index() -> None:
    own, inherited = declared(
        a=Meters(metadata={"indexed": False}), b=fields.Integer()
    ).attributes.values()
    assert (own.kind.operators, own.is_indexed) == (EQUALITY, False)
    assert (inherited.kind.operators, inherited.is_indexed) == (ORDER, True)


def test_importing_the_types_leaves_the_email_validator_as_it_is() -> None:
    with pytest.raises(EmailNotValidError):
        validate_email("root@fleet.local", check_deliverability=False)


OFFICE = ("office", "offices", Schema)

OWNER = tuple(replace(link, history=None) for link in computer.links)
"""The link of a computer, without a history."""


@pytest.mark.parametrize(
    ("resources", "defect"),
    [
        ((person, person), "type declared twice: person"),
        ((computer,), "the target of computer.owner, `person`, is not declared"),
        ((computer, person, ResourceType(*OFFICE, OWNER)), "of person declared twice: computers"),
        ((ResourceType("big office", "offices", Schema),), "`big office` of big office is not a"),
        ((declared("a", a=String(dump_only=True)),), "monitor.a is unique, so it must be wr"),
        *(
            (
                (person, ResourceType(*OFFICE, (Link(*names),))),
                f"`{reserved}` of {type_name} is not",
            )
            for names, reserved, type_name in (
                (("type", "person", "p", "x"), "type", "office"),
                (("created_at", "person", "p", "x"), "created_at", "office"),
                (("owner", "person", "updated_by", "x"), "updated_by", "office"),
                (("owner", "person", "p", "id"), "id", "person"),
            )
        ),
        *(
            ((declared(**{name: String()}),), "is not a valid name")
            for name in ("a b", "a,b", "a+b", "a[b", "_a", "a/b", "-", "")
        ),
    ],
)
def test_a_declaration_with_a_clash_or_an_invalid_name_is_refused(
    resources: tuple[ResourceType, ...], defect: str
) -> None:
    with pytest.raises(InvalidDeclaration) as raised:
        Graph(resources)
    assert defect in str(raised.value)

"""Invalid declarations fail at start, with a message that names them."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest
from marshmallow import Schema, fields

from registry.model.attributes import (
    Attribute,
    ComputedText,
    DateTime,
    Enumeration,
    Integer,
    Text,
)
from registry.model.graph import Graph, InvalidDeclaration
from registry.model.resource_type import Link, ResourceType
from registry.resources.computer import computer
from registry.resources.person import person


def declared(**attributes: fields.Field[Any]) -> ResourceType:
    schema = Schema.from_dict(dict(attributes))
    return ResourceType("monitor", "monitors", schema)


@pytest.mark.parametrize(
    ("attribute", "defect"),
    [
        (Text(nullable=False), "must be required or nullable, or have a default"),
        (Text(unique=True, read_only=True), "is unique, so it must be writable"),
        (Text(unique=True, default="x"), "is unique, so it must be writable and must not have a"),
    ],
)
def test_an_invalid_attribute_is_named(attribute: fields.Field[Any], defect: str) -> None:
    with pytest.raises(InvalidDeclaration) as raised:
        Graph([declared(model=attribute)])
    assert str(raised.value).startswith(f"attribute monitor.model {defect}")


@pytest.mark.parametrize(
    "attribute",
    [
        Text(required=True),
        Text(read_only=True),
        Text(required=True, unique=True),
        Text(unique=True),
        Text(default="x", nullable=True),
        DateTime(default=datetime.datetime(2026, 2, 28, tzinfo=datetime.UTC)),
        Enumeration("a", "b", default="b", read_only=True),
    ],
)
def test_a_valid_attribute_is_accepted(attribute: Attribute) -> None:
    assert list(Graph([declared(model=attribute)])["monitor"].attributes) == ["model"]


def test_settings_make_attributes_unique_beside_those_declared_so() -> None:
    resource = declared(name=Text(unique=True), size=Integer(), model=Text(required=True))
    graph = Graph([resource])
    assert set(graph["monitor"].unique_attributes) == {"name"}
    more = graph.with_unique(["monitor.size", "monitor.name"])
    assert set(more["monitor"].unique_attributes) == {"name", "size"}


@pytest.mark.parametrize("name", ["monitor.x", "monitor.full", "monitor.kind", "other.size"])
def test_an_attribute_that_cannot_be_unique_is_named(name: str) -> None:
    resource = declared(
        size=Integer(), name=Text(), full=ComputedText("name"), kind=Text(default="a")
    )
    with pytest.raises(InvalidDeclaration) as raised:
        Graph([resource]).with_unique(["monitor.size", name])
    choices = "choose from monitor.size, monitor.name"
    assert str(raised.value) == f"{name!r} is not an attribute that can be unique; {choices}"


class ClashingSchema(Schema):
    owner = Text()


class NamedSchema(Schema):
    model = Text(required=True)


OFFICE = ("office", "offices", Schema)

OWNER = tuple(replace(link, history=None) for link in computer.links)
"""The link of a computer, without a history."""


@pytest.mark.parametrize(
    ("resources", "defect"),
    [
        ((person, person), "type declared twice: person"),
        ((computer,), "the target of computer.owner, `person`, is not declared"),
        ((computer, person, ResourceType("x", "computers", Schema)), "declared twice: computers"),
        (
            (person, ResourceType("computer", "computers", ClashingSchema, OWNER)),
            "field of computer declared twice: owner",
        ),
        (
            (person, computer, ResourceType(*OFFICE, OWNER)),
            "field of person declared twice: computers",
        ),
        (
            (ResourceType("office", "offices", NamedSchema, hidden={"model": Text()}),),
            "stored field of office declared twice: model",
        ),
        ((ResourceType("big office", "offices", Schema),), "`big office`"),
        ((ResourceType("office", "offices/x", Schema),), "`offices/x`"),
        ((declared(type=Text()),), "`type` of monitor is not a valid name: it is reserved"),
        ((declared(id=Text()),), "`id` of monitor is not"),
        ((person, ResourceType(*OFFICE, (Link("type", "person", "p", "x"),))), "`type` of office"),
        ((person, ResourceType(*OFFICE, (Link("owner", "person", "p", "id"),))), "`id` of person"),
        *(
            ((declared(**{name: Text()}),), "is not a valid name")
            for name in ("a b", "a.b", "a,b", "a+b", "a[b", "_a", "a/b", "-", "")
        ),
    ],
)
def test_a_declaration_with_a_clash_or_an_invalid_name_is_refused(
    resources: tuple[ResourceType, ...], defect: str
) -> None:
    with pytest.raises(InvalidDeclaration) as raised:
        Graph(resources)
    assert defect in str(raised.value)


@pytest.mark.parametrize("name", ["created_at", "created_by", "updated_at", "updated_by"])
def test_the_names_of_the_authorship_are_refused(name: str) -> None:
    ticket = ResourceType(
        "ticket", "tickets", Schema, (Link(name, "monitor", "monitor", "tickets"),)
    )
    stored = ResourceType(
        "ticket", "tickets", Schema, (Link("monitor", "monitor", name, "tickets"),)
    )
    for resources in (
        [declared(**{name: Text()})],
        [declared(), ticket],
        [declared(), stored],
    ):
        with pytest.raises(InvalidDeclaration, match=f"`{name}` of .* is reserved"):
            Graph(resources)


def test_a_many_to_many_link_is_refused() -> None:
    team = ResourceType("team", "teams", Schema, (Link("users", "user", "user_id", "teams"),))
    user = ResourceType("user", "users", Schema, (Link("teams", "team", "team_id", "users"),))
    with pytest.raises(InvalidDeclaration, match=r"team\.users and user\.teams .* many-to-many"):
        Graph([team, user])

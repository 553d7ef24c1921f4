"""Request document -> checked input (JSON:API 1.0, Creating, Updating and Deleting Resources)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson
from marshmallow import ValidationError

from registry.jsonapi.errors import (
    ApiError,
    InvalidField,
    MalformedDocument,
    Problems,
    TypeConflict,
    pointer_to,
    quoted,
)
from registry.resource import LARGEST_ID, Linked, Relationship, Resource

ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
"""The one spelling of an id."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A resource identifier of a request. id: None if no resource can have the id `sent`."""

    id: int | None
    sent: str
    pointer: str


@dataclass(frozen=True, slots=True)
class Linkage:
    """What a relationship is to become: its only target, all of its targets, or none."""

    relationship: Relationship
    identifiers: tuple[Identifier, ...]

    @property
    def ids(self) -> list[int]:
        """The ids that resources can have, each once, rising."""
        return sorted({one.id for one in self.identifiers if one.id is not None})

    @property
    def linked(self) -> Linked:
        """What the relationship then leads to."""
        if self.relationship.to_many:
            return self.ids
        return next(iter(self.ids), None)


@dataclass(frozen=True, slots=True)
class Change:
    """What a request writes: attributes by name, and relationships."""

    attributes: dict[str, Any]
    linkages: tuple[Linkage, ...]


def parse_id(text: str) -> int | None:
    """Return the id that the text stands for, None if it is no positive 64-bit integer."""
    if not ID.fullmatch(text):
        return None
    number = int(text)
    return number if number <= LARGEST_ID else None


def load(body: bytes, resource: Resource, *, creating: bool) -> Change:
    """Return what a POST (creating) or PATCH document of this type asks for.

    Required attributes have to be there only when creating; what may be left out gets its default
    then. A client's `id` is discarded (sections 4.2 and 4.4 of the service description). Raises
    MalformedDocument if there is no resource object, TypeConflict if it is one of another type,
    else ApiErrors with every problem of it.
    """
    data = _primary_data(body)
    problems = Problems()
    if problem := _type_problem(data, resource.type, "data"):
        if isinstance(problem, TypeConflict):
            raise problem  # this type cannot judge the attributes of another
        problems.add(problem)
    change = Change(
        _attributes(data, resource, creating, problems), _linkages(data, resource, problems)
    )
    problems.raise_any()
    return change


def _primary_data(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedDocument(f"The body is not JSON: {error}.", pointer="") from error
    if not isinstance(document, dict):
        raise MalformedDocument("The document is not an object.", pointer="")
    data = document.get("data")
    if not isinstance(data, dict):
        raise MalformedDocument("`data` is not a resource object.", pointer="/data")
    return data


def _type_problem(linked: dict[str, Any], expected: str, *place: str | int) -> ApiError | None:
    found, pointer = linked.get("type"), pointer_to(*place, "type")
    if not isinstance(found, str):
        return MalformedDocument("`type` is missing or not a string.", pointer=pointer)
    if found != expected:
        return TypeConflict(f"The type here is `{expected}`, not {quoted(found)}.", pointer=pointer)
    return None


def _object(data: dict[str, Any], member: str, problems: Problems) -> dict[str, Any]:
    """Return a member of the resource object that is an object itself, {} if there is none."""
    found = data.get(member, {})
    if isinstance(found, dict):
        return found
    problems.add(
        MalformedDocument(f"`{member}` is not an object.", pointer=pointer_to("data", member))
    )
    return {}


def _attributes(
    data: dict[str, Any], resource: Resource, creating: bool, problems: Problems
) -> dict[str, Any]:
    sent = _object(data, "attributes", problems)
    details = {name: _refusal(name, resource) for name in sent if name not in resource.writable}
    accepted = {name: value for name, value in sent.items() if name not in details}
    try:
        loaded: dict[str, Any] = resource.full_schema.load(accepted, partial=not creating)
    except ValidationError as error:
        # A schema reports {name: [message, ...]}; one error object each.
        details |= {name: " ".join(messages) for name, messages in error.messages_dict.items()}
        loaded = {}
    for name, detail in details.items():
        problems.add(InvalidField(detail, pointer=pointer_to("data", "attributes", name)))
    return loaded


def _refusal(name: str, resource: Resource) -> str:
    if name in resource.attributes or name in resource.hidden:
        return "This attribute is read-only."
    return f"`{resource.type}` has no such attribute; there are {quoted(*resource.attributes)}."


def _linkages(data: dict[str, Any], resource: Resource, problems: Problems) -> tuple[Linkage, ...]:
    found = []
    for name, sent in _object(data, "relationships", problems).items():
        place = ("data", "relationships", name)
        relationship = resource.relationships.get(name)
        if relationship is None:
            problems.add(
                InvalidField(
                    f"`{resource.type}` has no such relationship; "
                    f"there are {quoted(*resource.relationships)}.",
                    pointer=pointer_to(*place),
                )
            )
        elif not isinstance(sent, dict) or "data" not in sent:
            problems.add(
                MalformedDocument(
                    "A relationship is an object with `data`.", pointer=pointer_to(*place)
                )
            )
        else:
            found.append(_linkage(sent["data"], relationship, (*place, "data"), problems))
    return tuple(found)


def _linkage(
    sent: Any,
    relationship: Relationship,
    place: tuple[str | int, ...],
    problems: Problems,
) -> Linkage:
    if relationship.to_many != isinstance(sent, list):
        expected = (
            "an array of resource identifiers"
            if relationship.to_many
            else "a resource identifier or null"
        )
        problems.add(
            MalformedDocument(f"`{relationship.name}` is {expected}.", pointer=pointer_to(*place))
        )
        return Linkage(relationship, ())
    if relationship.to_many:
        places = [(item, (*place, index)) for index, item in enumerate(sent)]
    else:
        places = [] if sent is None else [(sent, place)]
    return Linkage(
        relationship,
        tuple(_identifier(item, relationship.target, where, problems) for item, where in places),
    )


def _identifier(
    sent: Any,
    expected: str,
    place: tuple[str | int, ...],
    problems: Problems,
) -> Identifier:
    pointer = pointer_to(*place, "id")
    if not isinstance(sent, dict):
        problems.add(
            MalformedDocument("A resource identifier is an object.", pointer=pointer_to(*place))
        )
        return Identifier(None, "", pointer)
    if problem := _type_problem(sent, expected, *place):
        problems.add(problem)
    found = sent.get("id")
    # Integers are taken too, as the description shows them; one beyond 64 bits arrives as float.
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        problems.add(
            MalformedDocument("`id` is missing or neither string nor integer.", pointer=pointer)
        )
        return Identifier(None, "", pointer)
    return Identifier(parse_id(str(found)), str(found), pointer)

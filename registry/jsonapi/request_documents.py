"""Request document -> checked input (JSON:API 1.0, Creating, Updating and Deleting Resources)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson
from marshmallow import ValidationError

from registry.jsonapi.errors import (
    ApiError,
    ErrorCollector,
    InvalidField,
    MalformedDocument,
    TypeConflict,
    pointer_to,
    quoted,
)
from registry.model.attributes.identifier import parse_id
from registry.model.record import LinkedIds
from registry.model.resource import Relationship, Resource
from registry.model.validation import load_attributes


@dataclass(frozen=True, slots=True)
class Identifier:
    """A resource identifier of a request. id: None if no resource can have the id `sent`."""

    id: int | None
    sent: str
    pointer: str


class Mode(Enum):
    """What a linkage does to a to-many relationship (JSON:API 1.0, Updating Relationships)."""

    REPLACE = "replace"
    ADD = "add"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Linkage:
    """What a relationship is to become, or the members that it is to gain or lose."""

    relationship: Relationship
    identifiers: tuple[Identifier, ...]
    mode: Mode = Mode.REPLACE

    @property
    def ids(self) -> list[int]:
        """The ids that resources can have, each once, rising."""
        return sorted({one.id for one in self.identifiers if one.id is not None})

    @property
    def linked(self) -> LinkedIds:
        """What the relationship then leads to, if it is replaced."""
        if self.relationship.to_many:
            return self.ids
        return next(iter(self.ids), None)


@dataclass(frozen=True, slots=True)
class Change:
    """What a request writes: attributes by name, and relationships."""

    attributes: dict[str, Any]
    linkages: tuple[Linkage, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """Where in a request document something stands, and what its local ids stand for.

    path: the way there from the root. local_ids: by (type, lid); None where there can be none.
    """

    path: tuple[str | int, ...]
    local_ids: Mapping[tuple[str, str], int] | None = None

    def __truediv__(self, step: str | int) -> Position:
        """Return a place below this one."""
        return Position((*self.path, step), self.local_ids)

    @property
    def pointer(self) -> str:
        """The JSON Pointer to the place."""
        return pointer_to(*self.path)


DATA = Position(("data",))
"""Where the primary data of a document stand."""


def load(body: bytes, resource: Resource, *, creating: bool) -> Change:
    """Return what a POST (creating) or PATCH document of this type asks for.

    Raises MalformedDocument if there is no resource object, else what `load_resource` raises.
    """
    return load_resource(read_member(body, "data"), resource, DATA, creating=creating)


def load_linkage(body: bytes, relationship: Relationship, mode: Mode) -> Change:
    """Return what a document asks of a relationship (JSON:API 1.0, Updating Relationships).

    Raises MalformedDocument or ApiErrors as `load_identifiers` does.
    """
    return load_identifiers(read_member(body, "data"), relationship, mode, DATA)


def read_member(body: bytes, member: str, without: Sequence[str] = ()) -> Any:
    """Return a top-level member of a document.

    Raises MalformedDocument if there is none, or one of those that the document is to be without.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedDocument(f"The body is not JSON: {error}.", pointer="") from error
    if not isinstance(document, dict):
        raise MalformedDocument("The document is not an object.", pointer="")
    if member not in document:
        raise MalformedDocument(
            f"The document has no member `{member}`.", pointer=pointer_to(member)
        )
    for name in without:
        if name in document:
            raise MalformedDocument(
                f"A document with `{member}` has no `{name}`.", pointer=pointer_to(name)
            )
    return document[member]


def load_resource(data: Any, resource: Resource, site: Position, *, creating: bool) -> Change:
    """Return what a resource object asks for.

    Required attributes have to be there only when creating; what may be left out gets its default
    then. A client's `id` is discarded (sections 4.2 and 4.4 of the service description). Raises
    MalformedDocument if it is no resource object, TypeConflict if it is one of another type, else
    ApiErrors with every problem of it.
    """
    if not isinstance(data, dict):
        raise MalformedDocument("`data` is not a resource object.", pointer=site.pointer)
    problems = ErrorCollector()
    if problem := _type_problem(data, resource.type, site):
        if isinstance(problem, TypeConflict):
            raise problem  # this type cannot judge the attributes of another
        problems.add(problem)
    change = Change(
        _attributes(data, resource, creating, site, problems),
        _linkages(data, resource, site, problems) if "relationships" in data else (),
    )
    problems.raise_any()
    return change


def load_identifiers(data: Any, relationship: Relationship, mode: Mode, site: Position) -> Change:
    """Return what resource linkage asks for.

    Raises ApiErrors with every problem of it: MalformedDocument, TypeConflict.
    """
    problems = ErrorCollector()
    linkage = _linkage(data, relationship, mode, site, problems)
    problems.raise_any()
    return Change({}, (linkage,))


def _type_problem(sent: dict[str, Any], expected: str, site: Position) -> ApiError | None:
    found = sent.get("type")
    if found == expected:
        return None
    pointer = (site / "type").pointer
    if not isinstance(found, str):
        return MalformedDocument("`type` is missing or not a string.", pointer=pointer)
    return TypeConflict(f"The type here is `{expected}`, not {quoted(found)}.", pointer=pointer)


def _object(
    data: dict[str, Any], member: str, site: Position, problems: ErrorCollector
) -> dict[str, Any]:
    """Return a member of the resource object at this place, {} if there is none."""
    found = data.get(member, {})
    if isinstance(found, dict):
        return found
    pointer = (site / member).pointer
    problems.add(MalformedDocument(f"`{member}` is not an object.", pointer=pointer))
    return {}


def _attributes(
    data: dict[str, Any],
    resource: Resource,
    creating: bool,
    site: Position,
    problems: ErrorCollector,
) -> dict[str, Any]:
    sent = _object(data, "attributes", site, problems)
    details = {name: _refusal(name, resource) for name in sent if name not in resource.writable}
    accepted = {name: value for name, value in sent.items() if name not in details}
    try:
        loaded = load_attributes(resource, accepted, creating=creating)
    except ValidationError as error:
        # A schema reports {name: [message, ...]}; one error object each.
        details |= {name: " ".join(messages) for name, messages in error.messages_dict.items()}
        loaded = {}
    for name, detail in details.items():
        pointer = (site / "attributes" / name).pointer
        problems.add(InvalidField(detail, pointer=pointer))
    return loaded


def _refusal(name: str, resource: Resource) -> str:
    if name in resource.attributes or name in resource.hidden:
        return "This attribute is read-only."
    return f"`{resource.type}` has no such attribute; there are {quoted(*resource.attributes)}."


def _linkages(
    data: dict[str, Any], resource: Resource, site: Position, problems: ErrorCollector
) -> tuple[Linkage, ...]:
    found = []
    for name, sent in _object(data, "relationships", site, problems).items():
        place, relationship = site / "relationships" / name, resource.relationships.get(name)
        if relationship is None:
            problems.add(
                InvalidField(
                    f"`{resource.type}` has no such relationship; "
                    f"there are {quoted(*resource.relationships)}.",
                    pointer=place.pointer,
                )
            )
        elif not isinstance(sent, dict) or "data" not in sent:
            problems.add(
                MalformedDocument("A relationship is an object with `data`.", pointer=place.pointer)
            )
        else:
            found.append(
                _linkage(sent["data"], relationship, Mode.REPLACE, place / "data", problems)
            )
    return tuple(found)


def _linkage(
    sent: Any, relationship: Relationship, mode: Mode, site: Position, problems: ErrorCollector
) -> Linkage:
    if relationship.to_many != isinstance(sent, list):
        expected = (
            "an array of resource identifiers"
            if relationship.to_many
            else "a resource identifier or null"
        )
        problems.add(
            MalformedDocument(f"`{relationship.name}` is {expected}.", pointer=site.pointer)
        )
        return Linkage(relationship, ())
    if relationship.to_many:
        places = [(item, site / index) for index, item in enumerate(sent)]
    else:
        places = [] if sent is None else [(sent, site)]
    identifiers = (
        load_identifier(item, relationship.target, place, problems) for item, place in places
    )
    return Linkage(relationship, tuple(identifiers), mode)


def load_identifier(
    sent: Any, expected: str, site: Position, problems: ErrorCollector
) -> Identifier:
    """Return a resource identifier, which names a resource by `id`, or by `lid` where it can.

    What is wrong with it is added to the problems.
    """
    if not isinstance(sent, dict):
        problems.add(MalformedDocument("A resource identifier is an object.", pointer=site.pointer))
        return Identifier(None, "", site.pointer)
    problem = _type_problem(sent, expected, site)
    if problem:
        problems.add(problem)
    if site.local_ids is not None and "lid" in sent:
        if problem:
            return Identifier(None, "", site.pointer)  # what the local id is of, is not known
        return _local(sent, site, expected, problems)
    found, pointer = sent.get("id"), (site / "id").pointer
    # Integers are taken too, as the description shows them; one beyond 64 bits arrives as float.
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        problems.add(
            MalformedDocument("`id` is missing or neither string nor integer.", pointer=pointer)
        )
        return Identifier(None, "", pointer)
    return Identifier(parse_id(str(found)), str(found), pointer)


def _local(
    sent: dict[str, Any], site: Position, expected: str, problems: ErrorCollector
) -> Identifier:
    local_id, pointer = sent["lid"], (site / "lid").pointer
    number = (site.local_ids or {}).get((expected, local_id)) if isinstance(local_id, str) else None
    if "id" in sent:
        problems.add(
            MalformedDocument("A resource has `id` or `lid`, not both.", pointer=site.pointer)
        )
    elif number is None:
        problems.add(
            MalformedDocument(
                f"No operation before this one adds a `{expected}` with this local id.",
                pointer=pointer,
            )
        )
    return Identifier(number, str(local_id), pointer)

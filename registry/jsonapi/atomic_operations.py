"""A document of operations -> checked input (the extension Atomic Operations of JSON:API)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any
from urllib.parse import unquote, urlsplit

from registry.jsonapi.errors import ErrorCollector, MalformedDocument, NotFound, pointer_to, quoted
from registry.jsonapi.request_documents import (
    Change,
    Identifier,
    Mode,
    Position,
    load_identifier,
    load_identifiers,
    load_resource,
    read_member,
)
from registry.model.attributes.identifier import parse_id
from registry.model.graph import Graph
from registry.model.resource import Relationship, Resource

EXTENSION = "https://jsonapi.org/ext/atomic"
"""The URI by which the media type names the extension."""

OPERATIONS = "atomic:operations"
RESULTS = "atomic:results"

_BARRED = ("data", "included", "errors", RESULTS)
"""What a document of operations must not have (Atomic Operations, Document Structure)."""

_NOTHING = Change({}, ())
_MODES = {"add": Mode.ADD, "update": Mode.REPLACE, "remove": Mode.REMOVE}


class Verb(Enum):
    """What an operation does with its resource."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on one resource.

    target: the resource, by an id below 0 when an operation of the same request creates it.
    shown: whether the result holds the resource.
    """

    verb: Verb
    resource: Resource
    target: Identifier
    change: Change = _NOTHING
    shown: bool = False

    def numbered(self, ids: Mapping[int, int]) -> Operation:
        """Return the operation with the ids that the resources it creates have got."""
        linkages = tuple(
            replace(one, identifiers=tuple(_numbered(each, ids) for each in one.identifiers))
            for one in self.change.linkages
        )
        return replace(
            self,
            target=_numbered(self.target, ids),
            change=replace(self.change, linkages=linkages),
        )


@dataclass(frozen=True, slots=True)
class _Target:
    """What `ref`, `href` or the data point at; no identifier: the collection of the type."""

    resource: Resource
    identifier: Identifier | None = None
    relationship: Relationship | None = None


def load_operations(body: bytes, graph: Graph, most: int) -> list[Operation]:
    """Return the operations of a request, in their order.

    Raises MalformedDocument if there are none or more than `most`, or beside them what only other
    documents have, else ApiErrors with every problem of every operation: pointers lead into
    `/atomic:operations/<index>` (Atomic Operations, Operation Objects).
    """
    sent = read_member(body, OPERATIONS, without=_BARRED)
    if not isinstance(sent, list) or not 0 < len(sent) <= most:
        raise MalformedDocument(
            f"`{OPERATIONS}` is an array of 1 to {most} operations.",
            pointer=pointer_to(OPERATIONS),
        )
    problems, found, local_ids = ErrorCollector(), [], dict[tuple[str, str], int]()
    for index, one in enumerate(sent):
        site = Position((OPERATIONS, index), local_ids)
        with problems:
            found.append(_operation(one, site, -index - 1, graph))
        with problems:
            _introduce(one, site, -index - 1, local_ids)
    problems.raise_any()
    return found


def _numbered(identifier: Identifier, ids: Mapping[int, int]) -> Identifier:
    number = identifier.id
    return identifier if number is None else replace(identifier, id=ids.get(number, number))


def _introduce(
    sent: Any, site: Position, number: int, local_ids: dict[tuple[str, str], int]
) -> None:
    """Note the local id of a resource that is added; refused or not, later ones may mean it."""
    if not isinstance(sent, dict) or sent.get("op") != "add":
        return
    data = sent.get("data")
    if not isinstance(data, dict) or "lid" not in data or "ref" in sent:
        return
    name, local_id, pointer = data.get("type"), data["lid"], (site / "data" / "lid").pointer
    if not isinstance(local_id, str):
        raise MalformedDocument("`lid` is not a string.", pointer=pointer)
    if not isinstance(name, str):
        return  # the operation is refused for that
    if (name, local_id) in local_ids:
        raise MalformedDocument("An operation before this one has this local id.", pointer=pointer)
    local_ids[name, local_id] = number


def _operation(sent: Any, site: Position, number: int, graph: Graph) -> Operation:
    if not isinstance(sent, dict):
        raise MalformedDocument("An operation is an object.", pointer=site.pointer)
    code = sent.get("op")
    if not isinstance(code, str) or code not in _MODES:
        raise MalformedDocument(f"`op` is one of {quoted(*_MODES)}.", pointer=(site / "op").pointer)
    target = _target(sent, code, site, graph)
    if target.relationship is not None:
        return _relate(sent, code, target, site)
    if code == "add":
        return _create(sent, target, site, number)
    if target.identifier is None:
        raise MalformedDocument(f"`{code}` takes one resource.", pointer=site.pointer)
    if code == "remove":
        if sent.get("data") is not None:  # perhaps members, of a relationship that is not named
            raise MalformedDocument(
                "`remove` takes `data` with a relationship alone.", pointer=(site / "data").pointer
            )
        return Operation(Verb.DELETE, target.resource, target.identifier)
    change = load_resource(_data(sent, site), target.resource, site / "data", creating=False)
    return Operation(Verb.UPDATE, target.resource, target.identifier, change, shown=True)


def _create(sent: dict[str, Any], target: _Target, site: Position, number: int) -> Operation:
    if target.identifier is not None:
        raise MalformedDocument(
            "`add` takes a collection, or a relationship.", pointer=site.pointer
        )
    change = load_resource(_data(sent, site), target.resource, site / "data", creating=True)
    identifier = Identifier(number, "", (site / "data").pointer)
    return Operation(Verb.CREATE, target.resource, identifier, change, shown=True)


def _relate(sent: dict[str, Any], code: str, target: _Target, site: Position) -> Operation:
    resource, identifier, relationship = target.resource, target.identifier, target.relationship
    assert identifier is not None  # noqa: S101 - for mypy: whoever names a relationship names a resource
    assert relationship is not None  # noqa: S101 - for mypy: the caller has looked
    if not relationship.to_many and code != "update":
        raise MalformedDocument(
            f"`{relationship.name}` leads to one resource: it takes `update` alone.",
            pointer=(site / "op").pointer,
        )
    change = load_identifiers(_data(sent, site), relationship, _MODES[code], site / "data")
    return Operation(Verb.UPDATE, resource, identifier, change)


def _data(sent: dict[str, Any], site: Position) -> Any:
    if "data" not in sent:
        raise MalformedDocument("This operation takes `data`.", pointer=site.pointer)
    return sent["data"]


def _target(sent: dict[str, Any], code: str, site: Position, graph: Graph) -> _Target:
    if "ref" in sent and "href" in sent:
        raise MalformedDocument("An operation has `ref` or `href`, not both.", pointer=site.pointer)
    if "href" in sent:
        return _of_href(sent["href"], site / "href", graph)
    if "ref" in sent:
        return _of_reference(sent["ref"], site / "ref", graph)
    if code == "remove":
        raise MalformedDocument("`remove` takes `ref` or `href`.", pointer=site.pointer)
    return _of_data(_data(sent, site), code, site / "data", graph)


def _of_data(data: Any, code: str, site: Position, graph: Graph) -> _Target:
    resource = _type(data, site, graph)
    return _Target(resource, None if code == "add" else _identifier(data, resource, site))


def _of_reference(sent: Any, site: Position, graph: Graph) -> _Target:
    resource, place = _type(sent, site, graph), site / "relationship"
    # One that is null or empty must not pass for none: `remove` would take the whole resource.
    named = "relationship" in sent
    relationship = _relationship(resource, sent["relationship"], place) if named else None
    return _Target(resource, _identifier(sent, resource, site), relationship)


def _of_href(sent: Any, site: Position, graph: Graph) -> _Target:
    """Return what a path of this service leads to: that of a collection, resource or linkage."""
    if not isinstance(sent, str):
        raise MalformedDocument("`href` is not a string.", pointer=site.pointer)
    collections = {resource.collection: resource for resource in graph.values()}
    match _segments(sent):
        case ["", collection] if collection in collections:
            return _Target(collections[collection])
        case ["", collection, number, *rest] if collection in collections:
            resource = collections[collection]
            identifier = Identifier(parse_id(number), number, site.pointer)
            if not rest:
                return _Target(resource, identifier)
            if len(rest) == 2 and rest[0] == "relationships":
                return _Target(resource, identifier, _relationship(resource, rest[1], site))
    raise NotFound(
        "`href` is the path of a collection, a resource or its linkage here, and nothing more.",
        pointer=site.pointer,
    )


def _segments(sent: str) -> Sequence[str]:
    """Return the parts of a path; none if it is no path, or more than one."""
    try:
        url = urlsplit(sent)
    except ValueError:
        return []
    # The path of another host is not of here, and parameters would have no effect.
    return [unquote(part) for part in url.path.split("/")] if url.path == sent else []


def _type(sent: Any, site: Position, graph: Graph) -> Resource:
    name = sent.get("type") if isinstance(sent, dict) else None
    if not isinstance(name, str):
        raise MalformedDocument("This is no object with a `type`.", pointer=site.pointer)
    if name not in graph:
        raise NotFound(
            f"There is no type {quoted(name)}; there are {quoted(*graph)}.",
            pointer=(site / "type").pointer,
        )
    return graph[name]


def _identifier(sent: dict[str, Any], resource: Resource, site: Position) -> Identifier:
    problems = ErrorCollector()
    identifier = load_identifier(sent, resource.type, site, problems)
    problems.raise_any()
    return identifier


def _relationship(resource: Resource, name: Any, site: Position) -> Relationship:
    if not isinstance(name, str):
        raise MalformedDocument("`relationship` is not a string.", pointer=site.pointer)
    if name not in resource.relationships:
        raise NotFound(
            f"`{resource.type}` has no such relationship; "
            f"there are {quoted(*resource.relationships)}.",
            pointer=site.pointer,
        )
    return resource.relationships[name]

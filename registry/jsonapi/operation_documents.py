"""Documents of operations and of their results (JSON:API extension Atomic Operations)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson
from orjson import Fragment

from registry.jsonapi.changes import NO_CHANGE, Change, Identifier, Mode, Verb, Write
from registry.jsonapi.documents import JSONAPI
from registry.jsonapi.error_objects import (
    DocumentPosition,
    ErrorCollector,
    quoted,
    unknown_relationship,
    unknown_type,
)
from registry.jsonapi.error_types import NotFound
from registry.jsonapi.request_documents import (
    DocumentLoader,
    LocalId,
    LocalIds,
    load_member,
    malformed,
)
from registry.model.attributes.identifier import parse_id
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType

EXTENSION = "https://jsonapi.org/ext/atomic"
"""The URI of the extension in the media type."""

OPERATIONS = "atomic:operations"
RESULTS = "atomic:results"

MAX_OPERATIONS = 1_000
"""Per request. A longer transaction would keep other writes of its records waiting."""

_EXCLUDED = ("data", "included", "errors", RESULTS)
"""Members that a document of operations must not have (Atomic Operations, Document Structure)."""

_PLAIN_PATH = re.compile(r"/(?!/)[^?#\t\r\n]*")

_MODES = {"add": Mode.ADD, "update": Mode.REPLACE, "remove": Mode.REMOVE}


@dataclass(frozen=True, slots=True)
class _Target:
    """The target of `ref`, `href` or `data`; without an identifier, the collection of the type."""

    resource: ResourceType
    identifier: Identifier | None = None
    relationship: Relationship | None = None


def operation_position(index: int) -> DocumentPosition:
    """Return the position of an operation in its document."""
    return DocumentPosition((OPERATIONS, index))


def encode_results(objects: Sequence[str | None]) -> bytes:
    """Return a document of operation results; None is a result without a resource object."""
    members = [{} if text is None else {"data": Fragment(text)} for text in objects]
    return orjson.dumps({RESULTS: members, "jsonapi": JSONAPI})


def load_operations(body: bytes, graph: Graph) -> list[Write]:
    """Return the operations of a request as writes, in order.

    Raises MalformedDocument if the document has no operations, more than MAX_OPERATIONS, or
    members that exclude them; else ApiErrors with all errors of all operations, whose pointers
    start with `/atomic:operations/<index>` (Atomic Operations, Operation Objects).
    """
    members = load_member(body, OPERATIONS, _EXCLUDED)
    if not isinstance(members, list) or not 0 < len(members) <= MAX_OPERATIONS:
        detail = f"`{OPERATIONS}` must be an array of 1 to {MAX_OPERATIONS} operations."
        raise malformed(detail, DocumentPosition((OPERATIONS,)))
    errors, operations, local_ids = ErrorCollector(), [], dict[LocalId, int]()
    for index, member in enumerate(members):
        position, placeholder = operation_position(index), -index - 1
        with errors:
            loader = _OperationLoader(member, position, graph, local_ids)
            operations.append(loader.load(placeholder))
        with errors:
            _register_local_id(member, position, placeholder, local_ids)
    errors.raise_any()
    return operations


def _register_local_id(
    operation: Any, position: DocumentPosition, placeholder: int, local_ids: dict[LocalId, int]
) -> None:
    """Register the local id of a resource that is added.

    Done for rejected operations too, so that references to them are not reported as well.
    """
    match operation:
        case {"op": "add", "data": {"lid": lid, **data}} if "ref" not in operation:
            lid_position, type_name = position / "data" / "lid", data.get("type")
            if not isinstance(lid, str):
                raise malformed("`lid` must be a string.", lid_position)
            if isinstance(type_name, str):  # otherwise reported by the operation itself
                if (type_name, lid) in local_ids:
                    raise malformed("A preceding operation has the same `lid`.", lid_position)
                local_ids[type_name, lid] = placeholder


class _OperationLoader:
    """Loads one operation. Raises MalformedDocument or NotFound if it is not an operation."""

    def __init__(
        self, operation: Any, position: DocumentPosition, graph: Graph, local_ids: LocalIds
    ) -> None:
        if not isinstance(operation, dict):
            raise malformed("An operation must be an object.", position)
        op = operation.get("op")
        if not isinstance(op, str) or op not in _MODES:
            raise malformed(f"`op` must be one of {quoted(*_MODES)}.", position / "op")
        self._operation: dict[str, Any] = operation
        self._op = op
        self._position = position
        self._graph = graph
        self._loader = DocumentLoader(local_ids)

    def load(self, placeholder: int) -> Write:
        """Return the operation. placeholder: stands for the id of a resource that it adds."""
        match self._op, self._target():
            case _, _Target(resource, Identifier() as target, Relationship() as relationship):
                return self._change_linkage(resource, target, relationship)
            case "add", _Target(resource, None):
                target = Identifier(placeholder, "", (self._position / "data").pointer)
                change = self._change(resource, creating=True)
                return self._write(Verb.CREATE, resource, target, change)
            case "update", _Target(resource, Identifier() as target):
                change = self._change(resource, creating=False)
                return self._write(Verb.UPDATE, resource, target, change)
            case "remove", _Target(resource, Identifier() as target):
                # The data may be members to remove from a relationship that `ref` fails to name.
                if self._operation.get("data") is not None:
                    detail = "`remove` takes `data` only with a relationship."
                    raise malformed(detail, self._position / "data")
                return self._write(Verb.DELETE, resource, target, is_shown=False)
        target_kind = "a collection or a relationship" if self._op == "add" else "one resource"
        raise malformed(f"The target of `{self._op}` must be {target_kind}.", self._position)

    def _change(self, resource: ResourceType, *, creating: bool) -> Change:
        position = self._position / "data"
        change = self._loader.change(self._data(), resource, position, creating=creating)
        self._loader.errors.raise_any()
        return change

    def _change_linkage(
        self, resource: ResourceType, target: Identifier, relationship: Relationship
    ) -> Write:
        if not relationship.to_many and self._op != "update":
            detail = f"`{relationship.name}` is a to-one relationship: it supports only `update`."
            raise malformed(detail, self._position / "op")
        mode, position = _MODES[self._op], self._position / "data"
        linkage = self._loader.linkage(self._data(), relationship, mode, position)
        self._loader.errors.raise_any()
        change = Change({}, (linkage,))
        return self._write(Verb.UPDATE, resource, target, change, is_shown=False)

    def _write(
        self,
        verb: Verb,
        resource: ResourceType,
        target: Identifier,
        change: Change = NO_CHANGE,
        *,
        is_shown: bool = True,
    ) -> Write:
        position = self._position / "data"
        return Write(verb, resource, target, change, position=position, is_shown=is_shown)

    def _data(self) -> Any:
        if "data" not in self._operation:
            raise malformed("This operation requires `data`.", self._position)
        return self._operation["data"]

    def _target(self) -> _Target:
        operation, position = self._operation, self._position
        if "ref" in operation and "href" in operation:
            raise malformed("An operation must have either `ref` or `href`, not both.", position)
        if "href" in operation:
            return self._href_target(operation["href"], position / "href")
        if "ref" in operation:
            return self._ref_target(operation["ref"], position / "ref")
        if self._op == "remove":
            raise malformed("`remove` requires `ref` or `href`.", position)
        data, position = self._data(), position / "data"
        resource = self._resource(data, position)
        if self._op == "add":
            return _Target(resource)
        return _Target(resource, self._identifier(data, resource, position))

    def _ref_target(self, ref: Any, position: DocumentPosition) -> _Target:
        resource = self._resource(ref, position)
        relationship = None
        # Even if null or empty: without the relationship, `remove` would delete the resource.
        if "relationship" in ref:
            relationship = _relationship(resource, ref["relationship"], position / "relationship")
        return _Target(resource, self._identifier(ref, resource, position), relationship)

    def _href_target(self, href: Any, position: DocumentPosition) -> _Target:
        """Return the target of a path of this service: a collection, a resource or linkage."""
        if not isinstance(href, str):
            raise malformed("`href` must be a string.", position)
        collections = {resource.collection: resource for resource in self._graph.values()}
        match _path_segments(href):
            case ["", collection] if collection in collections:
                return _Target(collections[collection])
            case ["", collection, id_, *rest] if collection in collections:
                resource = collections[collection]
                identifier = Identifier(parse_id(id_), id_, position.pointer)
                if not rest:
                    return _Target(resource, identifier)
                if len(rest) == 2 and rest[0] == "relationships":
                    relationship = _relationship(resource, rest[1], position)
                    return _Target(resource, identifier, relationship)
        detail = "`href` must be the path of a collection, a resource or its linkage."
        raise NotFound(detail, pointer=position.pointer)

    def _resource(self, data: Any, position: DocumentPosition) -> ResourceType:
        type_name = data.get("type") if isinstance(data, dict) else None
        if not isinstance(type_name, str):
            raise malformed("An object with a `type` is required.", position)
        if type_name not in self._graph:
            pointer = (position / "type").pointer
            raise NotFound(unknown_type(type_name, self._graph), pointer=pointer)
        return self._graph[type_name]

    def _identifier(
        self, data: Any, resource: ResourceType, position: DocumentPosition
    ) -> Identifier:
        identifier = self._loader.identifier(data, resource.type, position)
        self._loader.errors.raise_any()
        return identifier


def _path_segments(href: str) -> Sequence[str]:
    """Return the decoded segments of a path, none if it is anything but a plain path."""
    # Other hosts are not this service, and query parameters would have no effect. `urlsplit` would
    # keep the text, which may be as long as a body.
    if not _PLAIN_PATH.fullmatch(href):
        return []
    return [unquote(segment) for segment in href.split("/")]


def _relationship(resource: ResourceType, name: Any, position: DocumentPosition) -> Relationship:
    if not isinstance(name, str):
        raise malformed("`relationship` must be a string.", position)
    if name not in resource.relationships:
        raise NotFound(unknown_relationship(name, resource), pointer=position.pointer)
    return resource.relationships[name]

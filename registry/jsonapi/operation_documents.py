"""Documents of atomic operations -> writes (Atomic Operations, Document Structure)."""

import re
from typing import Any, TypeAlias
from urllib.parse import unquote

from registry.jsonapi.changes import NO_CHANGE, Change, Identifier, Verb, Write
from registry.jsonapi.error_objects import (
    ErrorCollector,
    JsonPointer,
    quoted,
    unknown,
)
from registry.jsonapi.error_types import MalformedDocument, NotFound
from registry.jsonapi.request_documents import (
    DocumentLoader,
    LocalIds,
    identifier_of,
    load_member,
)
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.protocol import OPERATIONS, RESULTS

MAX_OPERATIONS = 1_000
"""Per request. A longer transaction would keep other writes of its records waiting."""

OPERATIONS_POINTER = JsonPointer() / OPERATIONS

_EXCLUDED = ("data", "included", "errors", RESULTS)
"""Members that a document of operations must not have (Atomic Operations, Document Structure)."""

_PLAIN_PATH = re.compile(r"/(?!/)[^?#\t\r\n]*")

_Target: TypeAlias = tuple[ResourceType, Identifier | None, Relationship | None]
"""The target of `ref`, `href` or `data`; without an identifier, the collection of the type."""


def load_operations(body: bytes, graph: Graph, *, merges: bool = False) -> list[Write]:
    """Return the operations of a request. merges: whether additions update what exists."""
    members = load_member(body, OPERATIONS, _EXCLUDED)
    if not isinstance(members, list) or not 0 < len(members) <= MAX_OPERATIONS:
        detail = f"`{OPERATIONS}` must be an array of 1 to {MAX_OPERATIONS} operations."
        raise MalformedDocument(detail, OPERATIONS_POINTER)
    errors, operations, local_ids = ErrorCollector(), [], LocalIds()
    for index, member in enumerate(members):
        position, placeholder = OPERATIONS_POINTER / index, -index - 1
        with errors:
            loader = _OperationLoader(member, position, graph, local_ids)
            operations.append(loader.load(placeholder, merges=merges))
        with errors:
            _register_local_id(member, position, placeholder, local_ids)
    errors.raise_any()
    return operations


class _OperationLoader(DocumentLoader):
    """Loads one operation. Raises MalformedDocument or NotFound if it is not an operation."""

    def __init__(
        self, operation: Any, position: JsonPointer, graph: Graph, local_ids: LocalIds
    ) -> None:
        super().__init__(local_ids)
        if not isinstance(operation, dict):
            raise MalformedDocument("An operation must be an object.", position)
        if operation.get("op") not in [*Verb]:
            raise MalformedDocument(f"`op` must be one of {quoted(*Verb)}.", position / "op")
        self._operation: dict[str, Any] = operation
        self._verb = Verb(operation["op"])
        self._position = position
        self._graph = graph

    def load(self, placeholder: int, *, merges: bool) -> Write:
        """Return the operation. placeholder: stands for the id of a resource that it adds."""
        verb, position = self._verb, self._position / "data"
        resource, target, relationship = self._target()
        merges = merges and verb is Verb.ADD and relationship is None
        if resource.read_only or (relationship and relationship.read_only):
            name = relationship.name if relationship else resource.type
            raise MalformedDocument(f"{quoted(name)} is read-only.", self._position)
        if relationship is not None:
            if not relationship.to_many and verb is not Verb.UPDATE:
                detail = f"`{relationship.name}` is a to-one relationship: it supports only"
                raise MalformedDocument(f"{detail} `update`.", self._position / "op")
            linkage = self.linkage(self._data(), relationship, verb, position)
            verb, change = Verb.UPDATE, Change({}, (linkage,))
        elif (target is None) != (verb is Verb.ADD):
            kind = "a collection or a relationship" if target else "one resource"
            detail = f"The target of `{verb}` must be {kind}."
            raise MalformedDocument(detail, self._position)
        elif verb is Verb.REMOVE:
            if self._operation.get("data") is not None:
                raise MalformedDocument("`remove` takes `data` only with a relationship.", position)
            change = NO_CHANGE
        else:
            change = self.change(self._data(), resource, position, verb, merges=merges)
        self.errors.raise_any()
        is_shown = relationship is None and verb is not Verb.REMOVE
        target = target or Identifier(placeholder, "", position)
        return Write(
            verb, resource, target, change, position=position, is_shown=is_shown, merges=merges
        )

    def _data(self) -> Any:
        if "data" not in self._operation:
            raise MalformedDocument("This operation requires `data`.", self._position)
        return self._operation["data"]

    def _target(self) -> _Target:
        operation, position = self._operation, self._position
        if "ref" in operation and "href" in operation:
            detail = "An operation must have either `ref` or `href`, not both."
            raise MalformedDocument(detail, position)
        if "href" in operation:
            return self._href_target(operation["href"], position / "href")
        if "ref" in operation:
            ref, position = operation["ref"], position / "ref"
            resource, relationship = self._resource(ref, position), None
            # Even if null or empty: without the relationship, `remove` would delete the resource.
            if "relationship" in ref:
                member = position / "relationship"
                relationship = _relationship(resource, ref["relationship"], member)
            return resource, self.identifier(ref, resource.type, position), relationship
        if self._verb is Verb.REMOVE:
            raise MalformedDocument("`remove` requires `ref` or `href`.", position)
        data, position = self._data(), position / "data"
        resource = self._resource(data, position)
        if self._verb is Verb.ADD:
            return resource, None, None
        return resource, self.identifier(data, resource.type, position), None

    def _href_target(self, href: Any, position: JsonPointer) -> _Target:
        """Return the target of a path of this service: a collection, a resource or linkage."""
        if not isinstance(href, str):
            raise MalformedDocument("`href` must be a string.", position)
        collections = {resource.collection: resource for resource in self._graph.values()}
        # Other hosts are not this service, and query parameters would have no effect. `urlsplit`
        # would keep the text, which may be as long as a body.
        is_path = _PLAIN_PATH.fullmatch(href)
        match [unquote(segment) for segment in href.split("/")] if is_path else []:
            case ["", collection] if collection in collections:
                return collections[collection], None, None
            case ["", collection, id_] if collection in collections:
                return collections[collection], identifier_of(id_, position), None
            case ["", collection, id_, "relationships", name] if collection in collections:
                relationship = _relationship(collections[collection], name, position)
                target = identifier_of(id_, position)
                return collections[collection], target, relationship
        detail = "`href` must be the path of a collection, a resource or its linkage."
        raise NotFound(detail, position)

    def _resource(self, data: Any, position: JsonPointer) -> ResourceType:
        type_name = data.get("type") if isinstance(data, dict) else None
        if not isinstance(type_name, str):
            raise MalformedDocument("An object with a `type` is required.", position)
        if type_name not in self._graph:
            raise NotFound(unknown(type_name, "a type", self._graph), position / "type")
        return self._graph[type_name]


def _relationship(resource: ResourceType, name: Any, position: JsonPointer) -> Relationship:
    if not isinstance(name, str):
        raise MalformedDocument("`relationship` must be a string.", position)
    if name not in resource.relationships:
        kind = f"a relationship of `{resource.type}`"
        raise NotFound(unknown(name, kind, resource.relationships), position)
    return resource.relationships[name]


def _register_local_id(
    operation: Any, position: JsonPointer, placeholder: int, local_ids: LocalIds
) -> None:
    """Register the local id of a resource that is added.

    Done for rejected operations too, so that references to them are not reported as well.
    """
    match operation:
        case {"op": "add", "data": {"lid": lid, **data}} if "ref" not in operation:
            lid_position, type_name = position / "data" / "lid", data.get("type")
            if not isinstance(lid, str):
                raise MalformedDocument("`lid` must be a string.", lid_position)
            if not isinstance(type_name, str):
                return  # reported by the operation itself
            if (type_name, lid) in local_ids:
                raise MalformedDocument("A preceding operation has the same `lid`.", lid_position)
            local_ids[type_name, lid] = placeholder

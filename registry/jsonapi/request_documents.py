"""Request documents -> changes and writes (JSON:API 1.0, Atomic Operations)."""

import re
from collections.abc import Collection
from typing import Any, TypeAlias
from urllib.parse import unquote

import orjson
from marshmallow import ValidationError

from registry.jsonapi.changes import (
    NO_CHANGE,
    NO_RESOURCE,
    Change,
    Identifier,
    Linkage,
    Verb,
    Write,
)
from registry.jsonapi.error_objects import (
    DATA,
    MAX_ERRORS,
    ApiError,
    ErrorCollector,
    JsonPointer,
    json_defect,
    quoted,
    unknown_relationship,
    unknown_type,
)
from registry.jsonapi.error_types import (
    InvalidField,
    InvalidMerge,
    MalformedDocument,
    NotFound,
    TypeConflict,
    invalid_attributes,
)
from registry.model.graph import Graph
from registry.model.implicit_attributes import parse_id
from registry.model.record import MAX_ID
from registry.model.resource_type import Relationship, ResourceType
from registry.protocol import OPERATIONS, RESULTS

_LocalIds: TypeAlias = dict[tuple[str, str], int]
"""The placeholder ids of the resources that operations add, by type and `lid`."""

_Object: TypeAlias = dict[str, Any]

MAX_OPERATIONS = 1_000
"""Per request. A longer transaction would keep other writes of its records waiting."""

OPERATIONS_POINTER = JsonPointer() / OPERATIONS

_EXCLUDED = ("data", "included", "errors", RESULTS)
"""Members that a document of operations must not have (Atomic Operations, Document Structure)."""

_PLAIN_PATH = re.compile(r"/(?!/)[^?#\t\r\n]*")

_Target: TypeAlias = tuple[ResourceType, Identifier | None, Relationship | None]
"""The target of `ref`, `href` or `data`; without an identifier, the collection of the type."""

MAX_CONTAINERS = 50_000
"""Objects and arrays per document: while the parser creates them, nothing else is done. A valid
document of 1 MiB has fewer, also together with the braces and brackets in its texts."""


def load(body: bytes, resource: ResourceType, verb: Verb, *, merges: bool = False) -> Change:
    """Return the change that the document of a POST (ADD) or PATCH (UPDATE) describes."""
    loader = DocumentLoader()
    data = load_member(body, "data")
    change = loader.change(data, resource, DATA, verb, merges=merges)
    loader.errors.raise_any()
    return change


def load_linkage(body: bytes, relationship: Relationship, verb: Verb) -> Change:
    """Return the change of a relationship (JSON:API 1.0, Updating Relationships)."""
    loader = DocumentLoader()
    linkage = loader.linkage(load_member(body, "data"), relationship, verb, DATA)
    loader.errors.raise_any()
    return Change({}, (linkage,))


def load_operations(body: bytes, graph: Graph, *, merges: bool = False) -> list[Write]:
    """Return the operations of a request. merges: whether additions update what exists."""
    members = load_member(body, OPERATIONS, _EXCLUDED)
    if not isinstance(members, list) or not 0 < len(members) <= MAX_OPERATIONS:
        detail = f"`{OPERATIONS}` must be an array of 1 to {MAX_OPERATIONS} operations."
        raise MalformedDocument(detail, OPERATIONS_POINTER)
    errors, operations, local_ids = ErrorCollector(), [], _LocalIds()
    for index, member in enumerate(members):
        position, placeholder = OPERATIONS_POINTER / index, -index - 1
        with errors:
            loader = _OperationLoader(member, position, graph, local_ids)
            operations.append(loader.load(placeholder, merges=merges))
        with errors:
            _register_local_id(member, position, placeholder, local_ids)
    errors.raise_any()
    return operations


def load_member(body: bytes, member: str, excluded: Collection[str] = ()) -> Any:
    """Parse a document and return one of its top-level members, which excludes some others."""
    if body.count(b"{") + body.count(b"[") > MAX_CONTAINERS:
        detail = f"The document has more than {MAX_CONTAINERS:,} objects, arrays, `{{` and `[`."
        raise MalformedDocument(detail, "")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedDocument(f"The body {json_defect(error)}.", "") from error
    if not isinstance(document, dict):
        raise MalformedDocument("The document must be an object.", "")
    if member not in document:
        raise MalformedDocument(f"The member `{member}` is missing.", JsonPointer() / member)
    for name in document:
        if name in excluded:
            detail = f"A document with `{member}` must not have `{name}`."
            raise MalformedDocument(detail, JsonPointer() / name)
    return document[member]


class DocumentLoader:
    """Loads parts of a document.

    local_ids: None where `lid` is not supported. The methods raise MalformedDocument or
    TypeConflict for a part as a whole, and add the errors of its members to `errors`: what they
    return is only valid without any.
    """

    def __init__(self, local_ids: _LocalIds | None = None) -> None:
        self.errors = ErrorCollector()
        self._local_ids = local_ids

    def change(
        self,
        data: Any,
        resource: ResourceType,
        position: JsonPointer,
        verb: Verb,
        *,
        merges: bool = False,
    ) -> Change:
        """Return the change that a resource object describes; its `id` is discarded.

        An addition must have the required attributes and gets the defaults of others. One that
        merges needs a unique attribute instead.
        """
        if not isinstance(data, dict):
            raise MalformedDocument("`data` must be a resource object.", position)
        try:
            _check_type(data, resource.type, position)
        except MalformedDocument as error:  # unlike a TypeConflict: the attributes are meant
            self.errors.add(error)
        attributes = self._object_member(data, "attributes", position)
        creates = verb is Verb.ADD and not merges
        loaded, read_only = self._attributes(attributes, resource, position, creates=creates)
        linkages = self._linkages(data, resource, position)
        if merges and not resource.has_unique(attributes):
            place = position / "attributes" if "attributes" in data else position
            self.errors.add(InvalidMerge.without_unique(resource, place))
        sent = attributes if merges else None
        return Change(loaded, linkages, read_only=read_only, sent=sent)

    def _attributes(
        self, attributes: _Object, resource: ResourceType, position: JsonPointer, *, creates: bool
    ) -> tuple[_Object, _Object]:
        """Return the attributes to store, and those that are read-only and must not differ."""
        read_only = _Object()
        if len(attributes) > len(resource.readable) + MAX_ERRORS:
            # The time that marshmallow takes is quadratic in the number of errors.
            unknown = dict.fromkeys(attributes.keys() - resource.readable.keys(), ())
            self.errors.extend(invalid_attributes(resource, unknown, position))
        try:
            return resource.load(attributes, partial=not creates), read_only
        except ValidationError as error:
            defects = error.messages_dict
        if not creates:
            read_only = {
                name: attributes[name]
                for name in attributes
                if name in defects and resource.is_read_only(name)
            }
        if read_only:
            written = {name: value for name, value in attributes.items() if name not in read_only}
            try:
                return resource.load(written, partial=True), read_only
            except ValidationError as error:
                defects = error.messages_dict
        sent = {name: defects[name] for name in attributes if name in defects}
        # In the order of the document, then what is missing.
        self.errors.extend(invalid_attributes(resource, sent | defects, position))
        return {}, {}

    def _linkages(
        self, data: _Object, resource: ResourceType, position: JsonPointer
    ) -> tuple[Linkage, ...]:
        if "relationships" not in data:
            return ()
        linkages = []
        for name, value in self._object_member(data, "relationships", position).items():
            relationship = resource.relationships.get(name)
            member = position / "relationships" / name
            if relationship is None:
                detail = unknown_relationship(name, resource)
                self.errors.add(InvalidField(detail, member))
            elif relationship.read_only:
                self.errors.add(InvalidField(f"`{name}` is read-only.", member))
            elif not isinstance(value, dict) or "data" not in value:
                detail = "A relationship must be an object with `data`."
                self.errors.add(MalformedDocument(detail, member))
            else:
                related, place = value["data"], member / "data"
                try:
                    linkages.append(self.linkage(related, relationship, Verb.UPDATE, place))
                except ApiError as error:
                    self.errors.add(error)
        return tuple(linkages)

    def linkage(
        self, data: Any, relationship: Relationship, verb: Verb, position: JsonPointer
    ) -> Linkage:
        """Return resource linkage, which replaces, adds or removes members."""
        if relationship.to_many != isinstance(data, list):
            to_many, to_one = "an array of resource identifiers", "a resource identifier or null"
            detail = f"`{relationship.name}` must be {to_many if relationship.to_many else to_one}."
            raise MalformedDocument(detail, position)
        if not relationship.to_many:
            single = () if data is None else (self.identifier(data, relationship.target, position),)
            return Linkage(relationship, single, verb)
        identifiers = []
        for index, member in enumerate(data):
            try:
                identifiers.append(self.identifier(member, relationship.target, position / index))
            except ApiError as error:
                self.errors.add(error)
        return Linkage(relationship, tuple(identifiers), verb)

    def identifier(self, data: Any, type_name: str, position: JsonPointer) -> Identifier:
        """Return a resource identifier, with `id` or, if supported, `lid`."""
        if not isinstance(data, dict):
            raise MalformedDocument("A resource identifier must be an object.", position)
        _check_type(data, type_name, position)
        if self._local_ids is not None and "lid" in data:
            return _local_identifier(data, type_name, position, self._local_ids)
        id_, id_position = data.get("id"), position / "id"
        # Integers are accepted too; one beyond 64 bits is parsed as a float.
        is_valid = id_.__class__ in {str, int} or (isinstance(id_, float) and abs(id_) > MAX_ID)
        if not is_valid:
            detail = "`id` is missing or neither a string nor an integer."
            raise MalformedDocument(detail, id_position)
        return _identifier(str(id_), id_position)

    def _object_member(self, data: _Object, name: str, position: JsonPointer) -> _Object:
        """Return an object-valued member of a resource object, {} if it is missing."""
        value = data.get(name, {})
        if isinstance(value, dict):
            return value
        self.errors.add(MalformedDocument(f"`{name}` must be an object.", position / name))
        return {}


def _identifier(text: str, position: JsonPointer) -> Identifier:
    return Identifier(parse_id(text) or NO_RESOURCE, text, position)


def _check_type(data: _Object, type_name: str, position: JsonPointer) -> None:
    value = data.get("type")
    if not isinstance(value, str):
        raise MalformedDocument("`type` is missing or not a string.", position / "type")
    if value != type_name:
        detail = f"The type must be `{type_name}`, not {quoted(value)}."
        raise TypeConflict(detail, position / "type")


def _local_identifier(
    data: _Object, type_name: str, position: JsonPointer, local_ids: _LocalIds
) -> Identifier:
    lid = data["lid"]
    if "id" in data:
        detail = "A resource identifier must have either `id` or `lid`, not both."
        raise MalformedDocument(detail, position)
    if not isinstance(lid, str) or (type_name, lid) not in local_ids:
        detail = f"No preceding operation adds a `{type_name}` with this local id."
        raise MalformedDocument(detail, position / "lid")
    return Identifier(local_ids[type_name, lid], lid, position / "lid")


def _register_local_id(
    operation: Any, position: JsonPointer, placeholder: int, local_ids: _LocalIds
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


class _OperationLoader(DocumentLoader):
    """Loads one operation. Raises MalformedDocument or NotFound if it is not an operation."""

    def __init__(
        self, operation: Any, position: JsonPointer, graph: Graph, local_ids: _LocalIds
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
                return collections[collection], _identifier(id_, position), None
            case ["", collection, id_, "relationships", name] if collection in collections:
                relationship = _relationship(collections[collection], name, position)
                target = _identifier(id_, position)
                return collections[collection], target, relationship
        detail = "`href` must be the path of a collection, a resource or its linkage."
        raise NotFound(detail, position)

    def _resource(self, data: Any, position: JsonPointer) -> ResourceType:
        type_name = data.get("type") if isinstance(data, dict) else None
        if not isinstance(type_name, str):
            raise MalformedDocument("An object with a `type` is required.", position)
        if type_name not in self._graph:
            raise NotFound(unknown_type(type_name, self._graph), position / "type")
        return self._graph[type_name]


def _relationship(resource: ResourceType, name: Any, position: JsonPointer) -> Relationship:
    if not isinstance(name, str):
        raise MalformedDocument("`relationship` must be a string.", position)
    if name not in resource.relationships:
        raise NotFound(unknown_relationship(name, resource), position)
    return resource.relationships[name]

"""Request document -> validated input (JSON:API 1.0, Creating, Updating and Deleting Resources)."""

from collections.abc import Collection, Mapping
from itertools import count, repeat
from typing import Any, TypeAlias

import orjson

from registry.jsonapi.changes import Change, Identifier, Linkage, Verb
from registry.jsonapi.error_objects import (
    DATA,
    READ_ONLY,
    ApiError,
    ErrorCollector,
    JsonPointer,
    quoted,
    unknown_relationship,
)
from registry.jsonapi.error_types import (
    InvalidField,
    InvalidMerge,
    MalformedDocument,
    TypeConflict,
)
from registry.model.implicit_attributes import parse_id
from registry.model.record import MAX_ID
from registry.model.resource_type import Relationship, ResourceType

LocalId: TypeAlias = tuple[str, str]
"""The type and the `lid` of a resource that an operation adds."""

LocalIds: TypeAlias = Mapping[LocalId, int]
"""The placeholder ids of these resources."""

_Object: TypeAlias = dict[str, Any]

MAX_CONTAINERS = 50_000
"""Objects and arrays per document: while the parser creates them, nothing else is done. A valid
document of 1 MiB has fewer."""


def load(body: bytes, resource: ResourceType, verb: Verb, *, merges: bool = False) -> Change:
    """Return the change that the document of a POST (ADD) or PATCH (UPDATE) describes.

    Raises as `load_member` and `DocumentLoader.change` do, and ApiErrors with all other errors.
    """
    loader = DocumentLoader()
    data = load_member(body, "data")
    change = loader.change(data, resource, DATA, verb, merges=merges)
    loader.errors.raise_any()
    return change


def load_linkage(body: bytes, relationship: Relationship, verb: Verb) -> Change:
    """Return the change of a relationship (JSON:API 1.0, Updating Relationships).

    Raises as `load_member` does, and ApiErrors with all other errors.
    """
    loader = DocumentLoader()
    linkage = loader.linkage(load_member(body, "data"), relationship, verb, DATA)
    loader.errors.raise_any()
    return Change({}, (linkage,))


def load_member(body: bytes, member: str, excluded: Collection[str] = ()) -> Any:
    """Parse a document and return one of its top-level members.

    Raises MalformedDocument if the body is not a JSON object, has more than MAX_CONTAINERS objects
    and arrays, lacks the member, or has one of the excluded members.
    """
    containers = body.count(b"{") + body.count(b"[")
    if containers > MAX_CONTAINERS and _outside_strings(body) > MAX_CONTAINERS:
        detail = f"The document has more than {MAX_CONTAINERS:,} objects and arrays."
        raise MalformedDocument(detail, "")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedDocument(f"The body is not valid JSON: {error}.", "") from error
    if not isinstance(document, dict):
        raise MalformedDocument("The document must be an object.", "")
    if member not in document:
        raise MalformedDocument(f"The member `{member}` is missing.", JsonPointer() / member)
    for name in document:
        if name in excluded:
            detail = f"A document with `{member}` must not have `{name}`."
            raise MalformedDocument(detail, JsonPointer() / name)
    return document[member]


def _outside_strings(body: bytes) -> int:
    """Return the number of objects and arrays in a JSON text."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(unescaped.split(b'"')[::2])
    return outside.count(b"{") + outside.count(b"[")


class DocumentLoader:
    """Loads parts of a document; their errors are collected in `errors`.

    local_ids: None where `lid` is not supported. The methods add MalformedDocument, TypeConflict
    and InvalidField to `errors`; what they return is only valid without errors.
    """

    def __init__(self, local_ids: LocalIds | None = None) -> None:
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
        """Return the change that a resource object describes.

        Of an addition, required attributes must be present, missing ones get their defaults, and
        read-only ones are refused. One that merges needs a unique attribute instead. A client's
        `id` is discarded. Raises MalformedDocument if `data` is not an object, TypeConflict if it
        is of another type.
        """
        creates = verb is Verb.ADD and not merges
        if not isinstance(data, dict):
            raise MalformedDocument("`data` must be a resource object.", position)
        if error := _type_error(data, resource.type, position):
            if isinstance(error, TypeConflict):
                raise error  # the attributes are those of another type
            self.errors.add(error)
        attributes = self._object_member(data, "attributes", position)
        names = () if creates else resource.readable.keys() - resource.writable
        read_only = {name: value for name, value in attributes.items() if name in names}
        written = {name: one for name, one in attributes.items() if name not in read_only}
        loaded = self._attributes(written, resource, position, creates=creates)
        linkages = self._linkages(data, resource, position)
        if merges and not resource.has_unique(attributes):
            place = position / "attributes" if "attributes" in data else position
            self.errors.add(InvalidMerge.without_unique(resource, place))
        return Change(loaded, linkages, read_only=read_only)

    def _attributes(
        self, attributes: _Object, resource: ResourceType, position: JsonPointer, *, creates: bool
    ) -> _Object:
        details = dict[str, str]()
        for name in [name for name in attributes if name not in resource.writable]:
            if name in resource.readable or name in resource.hidden:
                details[name] = READ_ONLY
            else:
                detail = f"{quoted(name)} is not an attribute of `{resource.type}`; available:"
                details[name] = f"{detail} {quoted(*resource.attributes)}."
        writable = {name: value for name, value in attributes.items() if name not in details}
        names = resource.attributes if creates else writable
        loaded, defects = resource.load(writable, names)
        for name, detail in (details | defects).items():
            self.errors.add(InvalidField(detail, position / "attributes" / name))
        return loaded

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
                linkage = self.linkage(value["data"], relationship, Verb.UPDATE, member / "data")
                linkages.append(linkage)
        return tuple(linkages)

    def linkage(
        self, data: Any, relationship: Relationship, verb: Verb, position: JsonPointer
    ) -> Linkage:
        """Return resource linkage, which replaces, adds or removes members."""
        if relationship.to_many != isinstance(data, list):
            to_many, to_one = "an array of resource identifiers", "a resource identifier or null"
            detail = f"`{relationship.name}` must be {to_many if relationship.to_many else to_one}."
            self.errors.add(MalformedDocument(detail, position))
            return Linkage(relationship, (), verb)
        target = relationship.target
        if relationship.to_many:
            positions = map(position.__truediv__, count())
            identifiers = tuple(map(self.identifier, data, repeat(target), positions))
        else:
            identifiers = () if data is None else (self.identifier(data, target, position),)
        return Linkage(relationship, identifiers, verb)

    def identifier(self, data: Any, type_name: str, position: JsonPointer) -> Identifier:
        """Return a resource identifier, with `id` or, if supported, `lid`."""
        if not isinstance(data, dict):
            self.errors.add(MalformedDocument("A resource identifier must be an object.", position))
            return Identifier(None, "", position)
        error = _type_error(data, type_name, position)
        if error:
            self.errors.add(error)
        if self._local_ids is not None and "lid" in data:
            if error:  # without the type, the local id cannot be looked up
                return Identifier(None, "", position)
            return self._local_identifier(data, type_name, position, self._local_ids)
        id_, id_position = data.get("id"), position / "id"
        # Integers are accepted too; one beyond 64 bits is parsed as a float.
        is_beyond_64_bits = isinstance(id_, float) and abs(id_) > MAX_ID
        is_valid = isinstance(id_, str | int) or is_beyond_64_bits
        if isinstance(id_, bool) or not is_valid:
            detail = "`id` is missing or neither a string nor an integer."
            self.errors.add(MalformedDocument(detail, id_position))
            return Identifier(None, "", id_position)
        return Identifier(parse_id(str(id_)), str(id_), id_position)

    def _local_identifier(
        self, data: _Object, type_name: str, position: JsonPointer, local_ids: LocalIds
    ) -> Identifier:
        lid, lid_position = data["lid"], position / "lid"
        text = lid if isinstance(lid, str) else None
        placeholder = None if text is None else local_ids.get((type_name, text))
        if "id" in data:
            detail = "A resource identifier must have either `id` or `lid`, not both."
            self.errors.add(MalformedDocument(detail, position))
        elif placeholder is None:
            detail = f"No preceding operation adds a `{type_name}` with this local id."
            self.errors.add(MalformedDocument(detail, lid_position))
        return Identifier(placeholder, text or "", lid_position)

    def _object_member(self, data: _Object, name: str, position: JsonPointer) -> _Object:
        """Return an object-valued member of a resource object, {} if it is missing."""
        value = data.get(name, {})
        if isinstance(value, dict):
            return value
        self.errors.add(MalformedDocument(f"`{name}` must be an object.", position / name))
        return {}


def _type_error(data: _Object, type_name: str, position: JsonPointer) -> ApiError | None:
    value = data.get("type")
    if value == type_name:
        return None
    member = position / "type"
    if not isinstance(value, str):
        return MalformedDocument("`type` is missing or not a string.", member)
    detail = f"The type must be `{type_name}`, not {quoted(value)}."
    return TypeConflict(detail, member)

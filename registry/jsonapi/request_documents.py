"""Request documents -> changes (JSON:API 1.0, Creating, Updating and Deleting Resources)."""

from collections.abc import Collection
from typing import Any, TypeAlias

import orjson
from marshmallow import ValidationError

from registry.jsonapi.changes import (
    NO_RESOURCE,
    Change,
    Identifier,
    Linkage,
    Verb,
)
from registry.jsonapi.error_objects import (
    DATA,
    MAX_ERRORS,
    ApiError,
    ErrorCollector,
    JsonPointer,
    json_defect,
    quoted,
    unknown,
)
from registry.jsonapi.error_types import (
    InvalidField,
    InvalidMerge,
    MalformedDocument,
    TypeConflict,
    invalid_attributes,
)
from registry.model.implicit_attributes import parse_id
from registry.model.record import MAX_ID
from registry.model.resource_type import Relationship, ResourceType

LocalIds: TypeAlias = dict[tuple[str, str], int]
"""The placeholder ids of the resources that operations add, by type and `lid`."""

_Object: TypeAlias = dict[str, Any]

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
            unique, name = resource.unique_attributes, f"`{resource.type}`"
            needed = (
                f"one of {quoted(*unique)}"
                if unique
                else f"a unique attribute, but {name} has none"
            )
            self.errors.add(InvalidMerge(f"Merging a {name} requires {needed}.", place))
        sent = attributes if merges else None
        return Change(loaded, linkages, read_only=read_only, sent=sent)

    def _attributes(
        self, attributes: _Object, resource: ResourceType, position: JsonPointer, *, creates: bool
    ) -> tuple[_Object, _Object]:
        """Return the attributes to store, and those that are read-only and must not differ."""
        if len(attributes) > len(resource.readable) + MAX_ERRORS:
            # The time that marshmallow takes is quadratic in the number of errors.
            others = dict.fromkeys(attributes.keys() - resource.readable.keys(), ())
            self.errors.extend(invalid_attributes(resource, others, position))
        read_only = {
            name: value
            for name, value in attributes.items()
            if not creates and resource.is_read_only(name)
        }
        written = {name: value for name, value in attributes.items() if name not in read_only}
        try:
            return resource.load(written, partial=not creates), read_only
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
                kind = f"a relationship of `{resource.type}`"
                detail = unknown(name, kind, resource.relationships)
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
        return identifier_of(str(id_), id_position)

    def _object_member(self, data: _Object, name: str, position: JsonPointer) -> _Object:
        """Return an object-valued member of a resource object, {} if it is missing."""
        value = data.get(name, {})
        if isinstance(value, dict):
            return value
        self.errors.add(MalformedDocument(f"`{name}` must be an object.", position / name))
        return {}


def identifier_of(text: str, position: JsonPointer) -> Identifier:
    """Return the identifier for an id as it was sent, which may be that of no resource."""
    return Identifier(parse_id(text) or NO_RESOURCE, text, position)


def _check_type(data: _Object, type_name: str, position: JsonPointer) -> None:
    value = data.get("type")
    if not isinstance(value, str):
        raise MalformedDocument("`type` is missing or not a string.", position / "type")
    if value != type_name:
        detail = f"The type must be `{type_name}`, not {quoted(value)}."
        raise TypeConflict(detail, position / "type")


def _local_identifier(
    data: _Object, type_name: str, position: JsonPointer, local_ids: LocalIds
) -> Identifier:
    lid = data["lid"]
    if "id" in data:
        detail = "A resource identifier must have either `id` or `lid`, not both."
        raise MalformedDocument(detail, position)
    if not isinstance(lid, str) or (type_name, lid) not in local_ids:
        detail = f"No preceding operation adds a `{type_name}` with this local id."
        raise MalformedDocument(detail, position / "lid")
    return Identifier(local_ids[type_name, lid], lid, position / "lid")

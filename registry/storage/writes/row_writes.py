"""The writes that rows ask for: their targets, the attributes of new resources, what is missing."""

from collections.abc import Sequence
from typing import NamedTuple

from marshmallow import ValidationError

from registry.jsonapi.changes import Change, Identifier, Linkage, Verb, Write
from registry.jsonapi.error_objects import ApiError, JsonPointer, quoted
from registry.jsonapi.error_types import InvalidField, invalid_attributes
from registry.rows.row_reader import Mention, Row

NEW = -1
"""The placeholder of the resource of a row; those of related ones are below."""


class InvalidPart(NamedTuple):
    """What is wrong with a row. link, name: of the attribute; None for the row as a whole."""

    error: ApiError
    link: str | None = None
    name: str | None = None


class InvalidRow(Exception):
    """A row is not stored. invalid: why, each about a part of it."""

    def __init__(self, invalid: Sequence[InvalidPart]) -> None:
        super().__init__()
        self.invalid = invalid


def place_of(error: ApiError) -> tuple[int, InvalidPart]:
    """Return the index of the row that an error is about, and the part of it."""
    match (error.pointer or "").split("/"):
        case ["", index, "attributes", name]:
            return int(index), InvalidPart(error, None, name)
        case ["", index, link, "attributes", name]:
            return int(index), InvalidPart(error, link, name)
    return int((error.pointer or "/0").split("/")[1]), InvalidPart(error)


def is_unique(mention: Mention) -> bool:
    """Whether a unique attribute alone tells the resource apart."""
    return len(mention.key) == 1 and mention.key[0] in mention.resource.unique


def identifier_of(id_: int) -> Identifier:
    """Return the identifier of a resource that is stored."""
    return Identifier(id_, str(id_), None)


def needed_by(row: Row) -> Write:
    """Return a write that needs the same records as a row."""
    linkages = [
        Linkage(
            row.own.resource.to_one[name],
            tuple(identifier_of(id_) for each in [linked] if each and (id_ := each.stored("id"))),
        )
        for name, linked in row.links.items()
    ]
    change = Change(row.own.loaded, tuple(linkages))
    target = identifier_of(row.own.stored("id") or NEW)
    return Write(Verb.ADD, row.own.resource, target, change)


def check_creation(linked: Mention) -> None:
    """Raise InvalidRow if the columns that are there do not create a related resource."""
    resource, link = linked.resource, linked.link
    missing = [
        f"{link}.{name}"
        for name, attribute in resource.writable.items()
        if attribute.required and name not in linked.sent
    ]
    if missing or linked.fixed:
        names = quoted(*linked.key)
        needed = f"needs {quoted(*missing)}" if missing else "must not have read-only columns"
        detail = f"There is no `{resource.type}` with this {names}. To create one, the row {needed}"
        raise InvalidRow([InvalidPart(InvalidField(f"{detail}."), link, linked.key[0])])


def complete(mention: Mention, position: JsonPointer) -> dict[str, object]:
    """Return the attributes of a new resource, with defaults. Raises InvalidRow."""
    try:
        sent = dict.fromkeys(mention.empty) | mention.sent
        if mention.resource.writable.keys() <= sent.keys():  # nothing is required, nor by default
            return dict.fromkeys(mention.empty) | mention.loaded
        return mention.resource.load(sent, partial=False)
    except ValidationError as error:
        raise InvalidRow(
            [
                InvalidPart(defect, mention.link, name)
                for name, messages in error.messages_dict.items()
                for defect in invalid_attributes(mention.resource, {name: messages}, position)
            ]
        ) from None

"""What the rows of a file say of their own resources and of related ones."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from marshmallow import ValidationError

from registry.jsonapi.error_objects import JsonPointer, RequestError
from registry.jsonapi.error_types import InvalidField, invalid_attributes
from registry.model.implicit_attributes import parse_id
from registry.model.resource_type import ResourceType


@dataclass(slots=True)
class Mention:
    """What a row says of a resource.

    line: of the row. link: the relationship that leads to it; None for the resource of the row
    itself. sent: the attributes in JSON, None for an empty cell. loaded: the stored forms of what
    the row changes. fixed: those of read-only attributes, by which it can be found. id: as in the
    file. key: the names of what tells it apart. is_named: whether the file has a column for that.
    """

    resource: ResourceType
    line: int
    link: str | None = None
    sent: dict[str, Any] = field(default_factory=dict)
    loaded: dict[str, Any] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    key: tuple[str, ...] = ()
    is_named: bool = False

    @property
    def position(self) -> JsonPointer:
        """Where a row is in the file, as a pointer: `/17`, or `/17/owner` of a related resource."""
        position = JsonPointer(f"/{self.line}")
        return position / self.link if self.link else position

    def pointer(self, name: str) -> JsonPointer:
        """Return the position of an attribute, or of the id, for an error."""
        return self.position / "attributes" / name

    def stored(self, name: str) -> Any:
        """Return the stored form of an attribute, or the id; None without a value."""
        if name == "id":
            return None if self.id is None else parse_id(self.id)
        return self.loaded.get(name, self.fixed.get(name))

    def text(self, name: str) -> str | None:
        """Return an attribute or the id as a text, None if the row does not say it."""
        sent = self.id if name == "id" else self.sent.get(name, self.fixed.get(name))
        return None if sent is None else str(sent)

    def load(self, *, removes: bool) -> None:
        """Validate the attributes. removes: whether empty cells do. Raises RequestError."""
        sent = {name: value for name, value in self.sent.items() if removes or value is not None}
        if sent:
            self.loaded = self._load(sent, partial=True)

    def complete(self) -> dict[str, Any]:
        """Return the attributes of a new resource, with defaults. Raises RequestError."""
        if self.resource.writable.keys() <= self.sent.keys():  # nothing is required, nor by default
            return dict.fromkeys(self.sent) | self.loaded
        return self._load(self.sent, partial=False)

    def _load(self, sent: Mapping[str, Any], *, partial: bool) -> dict[str, Any]:
        try:
            return self.resource.load(sent, partial=partial)
        except ValidationError as error:
            defects = invalid_attributes(self.resource, error.messages_dict, self.position)
            raise RequestError([*defects]) from None

    def error(self, reason: str, name: str) -> InvalidField:
        """Return an error about an attribute or the id."""
        return InvalidField(reason, self.pointer(name))


@dataclass(slots=True)
class Row:
    """A row. line: its first one in the file. links: related resources, None to remove a link.

    errors: why it is not valid, as the report has it; nothing else is kept then.
    """

    line: int
    own: Mention
    links: dict[str, Mention | None] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)

    @property
    def mentions(self) -> Iterator[Mention]:
        """The resource of the row, and the related ones."""
        return chain([self.own], (linked for linked in self.links.values() if linked))

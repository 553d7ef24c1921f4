"""What the rows of a file say of their own resources and of related ones, and what is wrong."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from marshmallow import ValidationError

from registry.jsonapi.error_objects import ApiError, JsonPointer
from registry.jsonapi.error_types import InvalidField, invalid_attributes
from registry.model.implicit_attributes import parse_id
from registry.model.resource_type import ResourceType

_MAX_VALUE = 100
"""Characters of a value in an error."""


class RowError(NamedTuple):
    """Why a row is invalid.

    link, name: of the attribute, and of the relationship to the resource that has it; None for the
    row as a whole. value: of its cell.
    """

    error: ApiError
    link: str | None = None
    name: str | None = None
    value: str | None = None


def shortened(value: str) -> str:
    """Return the value of a cell as errors have it."""
    return value if len(value) <= _MAX_VALUE else f"{value[: _MAX_VALUE - 1]}…"


class InvalidRow(Exception):
    """A row that is not stored. errors: why."""

    def __init__(self, *errors: RowError) -> None:
        super().__init__()
        self.errors: Sequence[RowError] = errors


@dataclass(slots=True)
class Mention:
    """What a row says of a resource.

    link: the relationship that leads to it; None for the resource of the row itself. sent: the
    attributes in JSON. loaded: their stored forms. fixed: those of read-only attributes, by which
    it can be found. empty: the names of those whose cells are empty, which a new resource has no
    value of. id: as in the file. key: the names of what tells it apart; is_named if it is less than
    all values.
    """

    resource: ResourceType
    link: str | None = None
    sent: dict[str, Any] = field(default_factory=dict)
    loaded: dict[str, Any] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    id: str | None = None
    key: tuple[str, ...] = ()
    is_named: bool = False

    def stored(self, name: str) -> Any:
        """Return the stored form of an attribute, or the id; None without a value."""
        if name == "id":
            return None if self.id is None else parse_id(self.id)
        return self.loaded.get(name, self.fixed.get(name))

    def load(self) -> None:
        """Validate the attributes. Raises InvalidRow."""
        if self.sent:
            self.loaded = self._load(self.sent, partial=True)

    def complete(self) -> dict[str, Any]:
        """Return the attributes of a new resource, with defaults. Raises InvalidRow."""
        absent = dict.fromkeys(self.empty)
        sent = absent | self.sent
        if self.resource.writable.keys() <= sent.keys():  # nothing is required, nor by default
            return absent | self.loaded
        return self._load(sent, partial=False)

    def _load(self, sent: Mapping[str, Any], *, partial: bool) -> dict[str, Any]:
        try:
            return self.resource.load(sent, partial=partial)
        except ValidationError as error:
            raise InvalidRow(
                *(
                    self.error(defect, name)
                    for name, messages in error.messages_dict.items()
                    for defect in invalid_attributes(self.resource, {name: messages}, JsonPointer())
                )
            ) from None

    def error(self, reason: ApiError | str, name: str, value: str | None = None) -> RowError:
        """Return an error about an attribute or the id. value: as its cell has it, if known."""
        if value is None:
            sent = self.id if name == "id" else self.sent.get(name, self.fixed.get(name))
            value = None if sent is None else str(sent)
        error = InvalidField(reason) if isinstance(reason, str) else reason
        return RowError(error, self.link, name, value and shortened(value))


@dataclass(slots=True)
class Row:
    """A row. line: its first one in the file. links: related resources, None to remove a link."""

    line: int
    own: Mention
    links: dict[str, Mention | None] = field(default_factory=dict)
    errors: list[RowError] = field(default_factory=list)

    @property
    def mentions(self) -> Iterator[Mention]:
        """The resource of the row, and the related ones."""
        return chain([self.own], (linked for linked in self.links.values() if linked))

"""The fields of the resources of a type: attributes, the id, foreign keys, and internal ones."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import Any

from marshmallow import ValidationError, missing
from marshmallow.fields import Field

from registry.model.attributes import Kind, kind_of
from registry.model.fields import ComputedText


@dataclass(slots=True, eq=False)
class ResourceField:
    """A stored field of the resources of a type, and how clients can use it.

    name: in documents and query parameters. stored_name: in records. field: of a schema; it
    validates and serializes values. kind: what the class of the field implies.

    is_declared: an attribute that responses have unless `fields` says otherwise. is_shown: an
    attribute that `fields` can name. is_writable: requests can have it. is_filterable, is_sortable:
    filters, and sorting, can name it. is_own: part of the resource itself, which filters of related
    resources can name: neither a link nor a copy of what another one has.
    """

    name: str
    stored_name: str
    field: Field[Any]
    is_declared: bool = False
    is_shown: bool = False
    is_writable: bool = False
    is_filterable: bool = False
    is_sortable: bool = False
    is_own: bool = False
    kind: Kind = dataclass_field(init=False)
    _comparable: Field[Any] = dataclass_field(init=False)

    def __post_init__(self) -> None:
        self.kind = kind_of(self.field)
        # Filters can compare with what validators refuse, such as a part of an address.
        self._comparable = copy(self.field)
        self._comparable.validators = [self.kind.check] if self.kind.check else []

    def renamed(self, name: str) -> "ResourceField":
        """Return the field under another name, such as `owner.email` for a related resource."""
        return replace(self, name=name)

    @property
    def is_indexed(self) -> bool:
        """Whether sorting and filters have an index, unless the metadata has `indexed` as False."""
        return self.is_filterable and self.field.metadata.get("indexed", True)

    @property
    def is_computed(self) -> bool:
        """Whether the values follow from other attributes."""
        return isinstance(self.field, ComputedText)

    @property
    def is_read_only(self) -> bool:
        """Whether clients see the values, but cannot set them."""
        return self.is_shown and not self.is_writable

    @property
    def required(self) -> bool:
        """Whether a creation must have a value."""
        return self.field.required

    @property
    def nullable(self) -> bool:
        """Whether a value can be null."""
        return bool(self.field.allow_none)

    @property
    def default(self) -> Any:
        """The stored form of the value if none is sent; `missing` if nothing is stored then."""
        default = self.field.load_default
        default = default() if callable(default) else default
        return default if default in (None, missing) else self.kind.store(default)

    @property
    def may_be_missing(self) -> bool:
        """Whether records need not have the field."""
        is_set = self.required or self.is_computed or self.field.load_default is not missing
        return self.nullable or not is_set

    @property
    def can_be_unique(self) -> bool:
        """Whether every value comes from a request, so that it can be the reason of an error."""
        return self.is_writable and self.is_shown and self.field.load_default in (None, missing)

    @property
    def example(self) -> Any:
        """An example of a value in JSON."""
        return self.field.metadata.get("example", self.kind.example)

    def from_json(self, value: Any) -> Any:
        """Return the stored form of a JSON value to compare with. Raises ValidationError."""
        loaded = self._comparable.deserialize(value)
        return None if loaded is None else self.kind.store(loaded)

    def from_text(self, text: str) -> Any:
        """Return the stored form of a value in a query parameter. Raises ValidationError."""
        return self.from_json(self._parsed(self.kind.parse, text))

    def load(self, value: Any) -> Any:
        """Return the stored form of a JSON value. Raises ValidationError."""
        loaded = self.field.deserialize(value)
        return None if loaded is None else self.kind.store(loaded)

    def from_cell(self, text: str, *, has_decimal_comma: bool) -> Any:
        """Return the JSON value of a cell, as people write it, which is yet to be loaded.

        Raises ValidationError.
        """
        if self.kind.read is None:
            return self._parsed(self.kind.parse, text)
        return self._parsed(self.kind.read, text, has_decimal_comma)

    def _parsed(self, parse: Callable[..., Any], *given: Any) -> Any:
        try:
            return parse(*given)
        except ValueError as error:
            raise ValidationError(str(error) or f"Not {self.kind.expected}.") from error

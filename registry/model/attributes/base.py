"""The base class of the attribute types, and the operators that compare their values."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from marshmallow import ValidationError, fields, missing


class Operator(StrEnum):
    """A comparison of a stored field with a value."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    IN = "in"
    PREFIX = "prefix"
    CONTAINS = "contains"


EQUALITY = (Operator.EQ, Operator.NE, Operator.IN)
"""The operators of attributes whose order has no meaning."""

ORDER = (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.IN)
"""The operators of ordered attributes."""


class Attribute(fields.Field[Any]):
    """An attribute: how its values are validated, stored, serialized, compared and described.

    A value has three forms: JSON, text in a query parameter, and the value in a record.

    required: creation fails without it. default: the value in a record if none is sent. nullable:
    by default true, unless the attribute is required or has a default. read_only: requests must
    not contain it. unique: no two resources have the same value; null is not compared. example,
    description: for OpenAPI.
    """

    stored_type: ClassVar[type]  # the class of values in records
    is_json: ClassVar[bool] = True  # whether values in records are the same in JSON
    is_indexed: bool = True  # whether filters and sorting have an index
    ignores_case: ClassVar[bool] = False  # whether values that differ in case alone are the same
    operators: ClassVar[tuple[Operator, ...]] = ORDER  # those that filters can use
    expected: str  # a noun phrase for valid values, for error messages
    stored_null: Any = None  # the value in a record for null
    sample: Any = None  # the example in JSON, unless the declaration has one
    value_schema: Mapping[str, Any]  # the OpenAPI schema of the values that filters compare with
    constraints: Mapping[str, Any] = {}  # added for the attribute: the limits of stored values

    def __init__(
        self,
        *,
        required: bool = False,
        default: Any = None,
        nullable: bool | None = None,
        read_only: bool = False,
        unique: bool = False,
        **metadata: Any,
    ) -> None:
        self.unique = unique
        self.nullable = not required and default is None if nullable is None else nullable
        super().__init__(
            required=required,
            load_default=missing if required else default,
            allow_none=self.nullable,
            dump_only=read_only,
            metadata=metadata,
        )

    @property
    def can_be_unique(self) -> bool:
        """Whether every value comes from a request, so that it can be the reason of an error."""
        return not self.dump_only and (self.required or self.load_default is None)

    def from_json(self, value: Any) -> Any:
        """Return the stored form of a JSON value other than null. Raises ValidationError."""
        raise NotImplementedError

    def from_text(self, text: str) -> Any:
        """Return the stored form of a value in a query parameter. Raises ValidationError."""
        return self.from_json(text)

    def check(self, value: Any) -> None:
        """Raise ValidationError for a value that filters accept, but that must not be stored."""

    def load(self, value: Any) -> Any:
        """Return what to store for a JSON value other than null. Raises ValidationError."""
        loaded = self.from_json(value)
        self.check(loaded)
        return loaded

    def to_json(self, value: Any) -> Any:
        """Return the JSON form of a value in a record."""
        return value

    def to_cursor(self, value: Any) -> Any:
        """Return a JSON value that `from_cursor` restores exactly."""
        return value if self.is_json else self.to_json(value)

    def from_cursor(self, value: Any) -> Any:
        """Return the value in a record that a cursor encodes. Raises ValidationError."""
        if not self.is_json:
            return self.from_json(value)
        if value.__class__ is not self.stored_type:
            raise self.invalid()
        return value

    def openapi_schema(self) -> dict[str, Any]:
        """Return the OpenAPI schema of the attribute."""
        schema = {**self.value_schema, **self.constraints, "example": self.sample, **self.metadata}
        if self.nullable:
            schema["nullable"] = True
            if "enum" in schema:  # OpenAPI 3.0 requires null among the values
                schema["enum"] = [*schema["enum"], None]
        if self.dump_only:
            schema["readOnly"] = True
        if not self.required and not self.dump_only:
            schema["default"] = self.to_json(self.load_default)
        return schema

    def invalid(self) -> ValidationError:
        """Return the error for an invalid value."""
        return ValidationError(f"Not {self.expected}.")

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Any:
        return self.load(value)

    def _serialize(self, value: Any, *_: Any, **__: Any) -> Any:
        return self.to_json(value)

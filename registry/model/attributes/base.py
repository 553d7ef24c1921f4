"""What all attribute types share: one class says all that the service does with a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from marshmallow import ValidationError, fields, missing

from registry.model.operators import ORDER, Operator


class Attribute(fields.Field[Any]):
    """An attribute of a type: how its values are loaded, stored, shown, compared and described.

    A value has three forms: as JSON has it, as text in a query parameter, and as it is in a record.

    required: has to be sent at creation. default: the value, as in a record, if none is sent.
    nullable: whether it can be null; by default if it is neither required nor has a default.
    read_only: clients cannot send it. example, description: for OpenAPI.
    """

    stored_type: ClassVar[type]
    """The Python class of the values in records."""

    is_json: ClassVar[bool] = True
    """Whether a value in a record is the same in JSON."""

    operators: ClassVar[tuple[Operator, ...]] = ORDER
    """How filters can compare the attribute."""

    expected: str
    """What the values are, as error messages name it."""

    sample: Any = None
    """A value in JSON, for attributes declared without an example."""

    def __init__(
        self,
        *,
        required: bool = False,
        default: Any = None,
        nullable: bool | None = None,
        read_only: bool = False,
        **metadata: Any,
    ) -> None:
        self.nullable = not required and default is None if nullable is None else nullable
        super().__init__(
            required=required,
            load_default=missing if required else default,
            allow_none=self.nullable,
            dump_only=read_only,
            metadata=metadata,
        )

    def from_json(self, value: Any) -> Any:
        """Return the stored form of a JSON value other than null. Raises ValidationError."""
        raise NotImplementedError

    def from_text(self, text: str) -> Any:
        """Return the stored form of a value in a query parameter. Raises ValidationError."""
        return self.from_json(text)

    def check(self, value: Any) -> None:
        """Raise ValidationError if a value can be compared with, but not be stored."""

    def load(self, value: Any) -> Any:
        """Return what to store for a JSON value other than null. Raises ValidationError."""
        loaded = self.from_json(value)
        self.check(loaded)
        return loaded

    def to_json(self, value: Any) -> Any:
        """Return the JSON form of a value as it is in a record.

        External writers may have stored one of another class, which is shown best effort.
        """
        if value is None or isinstance(value, self.stored_type):
            return value
        return str(value)

    def to_cursor(self, value: Any) -> Any:
        """Return a JSON value from which `from_cursor` gets exactly this value of a record."""
        return value if self.is_json else self.to_json(value)

    def from_cursor(self, value: Any) -> Any:
        """Return the value of a record that a cursor holds. Raises ValidationError."""
        if not self.is_json:
            return self.from_json(value)
        if value.__class__ is not self.stored_type:
            raise self.refused()
        return value

    def json_schema(self) -> dict[str, Any]:
        """Return the OpenAPI schema of the values that filters compare with."""
        raise NotImplementedError

    def constraints(self) -> dict[str, Any]:
        """Return what the OpenAPI schema of values that can be stored has beside that."""
        return {}

    def description(self) -> dict[str, Any]:
        """Return the OpenAPI schema of the attribute."""
        found = {**self.json_schema(), **self.constraints(), "example": self.sample}
        found |= self.metadata
        if self.nullable:
            found["nullable"] = True
            if "enum" in found:  # which OpenAPI 3.0 wants to list null as well
                found["enum"] = [*found["enum"], None]
        if self.dump_only:
            found["readOnly"] = True
        if not self.required and not self.dump_only:
            found["default"] = self.to_json(self.load_default)
        return found

    def refused(self) -> ValidationError:
        """Return the error for a value of another kind."""
        return ValidationError(f"Not {self.expected}.")

    def _deserialize(
        self,
        value: Any,
        attr: str | None,  # noqa: ARG002 - marshmallow's signature
        data: Mapping[str, Any] | None,  # noqa: ARG002
        **_: Any,
    ) -> Any:
        return self.load(value)

    def _serialize(self, value: Any, attr: str | None, obj: Any, **_: Any) -> Any:  # noqa: ARG002
        return self.to_json(value)

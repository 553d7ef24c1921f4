"""`attributes` of requests -> values to store."""

from collections.abc import Iterable, Mapping
from typing import Any

from marshmallow import ValidationError, missing

from registry.model.resource_type import ResourceType


def load_attributes(
    resource_type: ResourceType, values: Mapping[str, Any], names: Iterable[str]
) -> dict[str, Any]:
    """Return the values to store by name.

    values: JSON values of writable attributes by name. names: of the attributes to load, of which
    required ones must be among the values, and other missing ones get their defaults. Raises
    ValidationError with the messages for all attributes by name.
    """
    loaded, messages = dict[str, Any](), dict[str, Any]()
    for name in names:
        attribute, value = resource_type.attributes[name], values.get(name)
        if attribute.dump_only:
            continue
        try:
            # marshmallow handles what is null or missing; for other values, it is slow.
            if value is None:
                loaded[name] = attribute.deserialize(values.get(name, missing))
            else:
                loaded[name] = attribute.load(value)
        except ValidationError as error:
            messages[name] = error.messages
    if messages:
        raise ValidationError(messages)
    return loaded

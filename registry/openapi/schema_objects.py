"""Parts of an OpenAPI document that do not depend on a type: objects, strings, references."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeAlias

from registry.model.graph import InvalidDeclaration
from registry.model.record import MAX_ID
from registry.model.resource_type import ResourceType

Json: TypeAlias = dict[str, Any]

POSITIVE: Json = {"type": "integer", "format": "int64", "minimum": 1, "maximum": MAX_ID}
"""The schema of an id or a page number."""


def title(resource_type: ResourceType) -> str:
    """Return the name of a type in the description, `Person`."""
    return resource_type.type.title().replace("_", "")


def require_distinct(names: Iterable[str]) -> None:
    """Raise InvalidDeclaration if two parts of the description get the same name."""
    (name, count), *_ = Counter(names).most_common(1)
    if count > 1:
        raise InvalidDeclaration(
            f"the API description would have two parts with the name {name}: rename a type or link"
        )


def reference(kind: str, name: str) -> Json:
    """Return a reference to a component. kind: `schemas`, `parameters`, ..."""
    return {"$ref": f"#/components/{kind}/{name}"}


def schema_of(resource_type: ResourceType, suffix: str) -> Json:
    """Return a reference to a schema of a type, such as its `Document`."""
    return reference("schemas", title(resource_type) + suffix)


def absolute(path: str) -> str:
    """Return an example of the URL of a path."""
    return f"http://localhost:8080{path}"


def object_of(required: Json, optional: Json | None = None, *, closed: bool = True) -> Json:
    """Return the schema of an object with these members; a closed one has no others."""
    schema: Json = {"type": "object", "properties": required | (optional or {})}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


def text(description: str, **more: Any) -> Json:
    """Return the schema of a string."""
    return {"type": "string", "description": description, **more}


def code(names: Iterable[str]) -> str:
    """Return names for a description, as Markdown."""
    return ", ".join(f"`{name}`" for name in names)


def or_null(schema: Json) -> Json:
    """Return a schema that allows null too."""
    if "oneOf" not in schema:
        return {**schema, "nullable": True}
    first, *others = schema["oneOf"]
    # Beside `oneOf` it has no effect in OpenAPI 3.0, but some generators look for it there.
    return {"oneOf": [or_null(first), *others], "nullable": True}

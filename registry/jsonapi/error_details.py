"""Sentences for the `detail` of several errors, and names in them."""

from registry.model.graph import Graph
from registry.model.resource_type import ResourceType

READ_ONLY = "This attribute is read-only."


def unknown_relationship(name: str, resource: ResourceType) -> str:
    """Return the detail of the error for a relationship that the type does not have."""
    available = quoted(*resource.relationships)
    return f"{quoted(name)} is not a relationship of `{resource.type}`; available: {available}."


def unknown_type(name: str, graph: Graph) -> str:
    """Return the detail of the error for a type that does not exist."""
    return f"Unknown type {quoted(name)}; available: {quoted(*graph)}."


def quoted(*names: str) -> str:
    """Return names in backticks, separated by commas.

    Clients choose some of them: names over 80 characters are truncated, and those after the first
    50 names are omitted.
    """
    truncated = (name if len(name) <= 80 else f"{name[:79]}…" for name in names[:50])
    omitted = ", …" if len(names) > 50 else ""
    return ", ".join(f"`{name}`" for name in truncated) + omitted or "none"

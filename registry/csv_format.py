"""The CSV format of imports and exports: a row per resource of one type.

The header names the columns, in any order: `id`, attributes, and for to-one relationships
`owner.id` or attributes of the target such as `owner.email`.
"""

import re
from dataclasses import dataclass

from registry.model.attributes import Attribute, ResourceId
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType

# Where a formula begins: at the start of a cell, and after semicolons and line ends, at which some
# spreadsheets divide it. Before it is one apostrophe if it is escaped; more belong to the value.
_FORMULA = r"(?:\A|[;\n\r])\"*{}(?='*[=+\-@\t\n\r\0\uff1d\uff0b\uff0d\uff20])"
_UNESCAPED, _ESCAPED = re.compile(_FORMULA.format("")), re.compile(_FORMULA.format("'"))

_BLANKS_AROUND = re.compile(r"'*\s|'*\Z|.*\s\Z", re.DOTALL)
"""Values that would be stripped or empty, unless an apostrophe precedes them."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: an attribute of the resource, or of the target of a relationship.

    relationship: None for the resource itself. type: of the one that has the attribute. field: the
    name of the attribute, or `id`. attribute: that of the values; None if it is not imported.
    """

    name: str
    relationship: str | None
    type: str
    field: str
    attribute: Attribute | None


def find_column(name: str, resource: ResourceType, graph: Graph) -> Column | None:
    """Return the column with a name such as `serial` or `owner.email`, None if there is none."""
    first, _, field = name.rpartition(".")
    if first and first not in resource.to_one:
        return None
    target = graph[resource.to_one[first].target] if first else resource
    attribute = ResourceId(nullable=True) if field == "id" else target.readable.get(field)
    if attribute is None:
        return None
    # By a read-only attribute, such as a full name, a target can be found.
    is_imported = bool(first) or field == "id" or field in target.writable
    return Column(name, first or None, target.type, field, attribute if is_imported else None)


def escaped(text: str) -> str:
    """Return the cell for a text: spreadsheets neither execute it nor strip its blanks."""
    cell = _UNESCAPED.sub(r"\g<0>'", text)
    return f"'{cell}" if _BLANKS_AROUND.match(cell) else cell


def unescaped(cell: str) -> str:
    """Return the text of a cell, without blanks around it that are not escaped."""
    is_verbatim = cell.startswith("'") and _BLANKS_AROUND.match(cell, 1)
    text = cell[1:] if is_verbatim else cell.strip()
    return _ESCAPED.sub(lambda found: found[0][:-1], text)

"""The CSV format of imports and exports: a row per resource of one type.

The header names the columns, in any order: `id`, attributes, and for to-one relationships
`owner.id` or attributes of the target such as `owner.email`.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import chain
from typing import Any

import orjson
from marshmallow import fields

from registry.jsonapi.documents import Compound
from registry.jsonapi.error_objects import ErrorCollector, quoted
from registry.jsonapi.error_types import InvalidParameter
from registry.jsonapi.query import Include, Query
from registry.jsonapi.visible_revisions import visible_values
from registry.model.fieldset import fieldset
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource_field import ResourceField
from registry.model.resource_type import ResourceType
from registry.model.revisions import subject_of

# Where a formula begins: at the start of a cell, and after semicolons, tabs and line ends, at which
# some spreadsheets divide it. One apostrophe before it escapes it; more belong to the value.
_FORMULA = r"(?:\A|[;\t\n\r])\"*{}(?='*[=+\-@\t\n\r\0\uff1d\uff0b\uff0d\uff20])"
_UNESCAPED, _ESCAPED = re.compile(_FORMULA.format("")), re.compile(_FORMULA.format("'"))

_ID_TEXT = ResourceField("id", "_id", fields.String())
"""Ids in cells are read as text."""

_COUNT = ".count"
"""The end of the name of a column with numbers of members, such as `computers.count`."""

_IDENTIFIER = ("type", "id")
"""The columns of the resource that a revision belongs to."""

_PLAIN = re.compile(r"\w(?:[^;\t\n\r]*\w)?")
"""Most values, which need no escaping: a quick check."""

_BYTE_ORDER_MARK = "\ufeff"
"""At the start of a document, without which spreadsheets take it for another encoding."""

_BLANKS_AROUND = re.compile(r"'*\s|'*\Z|.*\s\Z", re.DOTALL)
"""Values that would be stripped or empty, unless an apostrophe precedes them."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: an attribute of the resource, or of the target of a relationship.

    relationship: None for the resource itself. type: of the one that has the attribute. field: the
    name of the attribute, `id`, or a to-many relationship whose members are counted. attribute:
    that of the values; None if it is not imported.
    """

    relationship: str | None
    type: str
    field: str
    attribute: ResourceField | None


def find_column(name: str, resource: ResourceType, graph: Graph) -> Column | None:
    """Return the column with a name such as `serial` or `owner.email`, None if there is none."""
    first, _, field = name.rpartition(".")
    if first and first == resource.subject:
        return Column(None, resource.type, name, None)
    if name.endswith(_COUNT) and (column := _count_column(name, resource, graph)):
        return column
    if first and first not in resource.to_one:
        return None
    target = graph[resource.to_one[first].target] if first else resource
    attribute = _ID_TEXT if field == "id" else target.readable.get(field)
    if attribute is None:
        return None
    # By a read-only attribute, such as a full name, a target can be found.
    is_imported = bool(first) or field == "id" or field in target.writable
    return Column(first or None, target.type, field, attribute if is_imported else None)


def _count_column(name: str, resource: ResourceType, graph: Graph) -> Column | None:
    first, _, counted = name.removesuffix(_COUNT).rpartition(".")
    if first and first not in resource.to_one:
        return None
    owner = graph[resource.to_one[first].target] if first else resource
    relationship = owner.relationships.get(counted)
    if relationship is None or not relationship.to_many:
        return None
    return Column(first or None, owner.type, counted, None)


def escaped(text: str) -> str:
    """Return the cell for a text: spreadsheets neither execute it nor strip its blanks."""
    if _PLAIN.fullmatch(text):
        return text
    cell = _UNESCAPED.sub(r"\g<0>'", text)
    return f"'{cell}" if _BLANKS_AROUND.match(cell) else cell


def unescaped(cell: str) -> str:
    """Return the text of a cell, without blanks around it that are not escaped."""
    is_verbatim = cell.startswith("'") and _BLANKS_AROUND.match(cell, 1)
    text = cell[1:] if is_verbatim else cell.strip()
    return _ESCAPED.sub(lambda found: found[0][:-1], text)


class CsvTable:
    """A CSV document with resources of a type, as a query selects and shows them (RFC 4180).

    The columns are those of `fields` in their order, by default the id and all attributes, those of
    the to-one relationships that `fields` or `include` name, and counts. header: the first line.
    query: for what they show. Raises RequestError with an InvalidParameter for each name without
    columns.
    """

    def __init__(self, query: Query, resource: ResourceType, graph: Graph) -> None:
        self.resource = resource
        self._graph = graph
        names = _column_names(query, resource, graph)
        found = (find_column(name, resource, graph) for name in names)
        self._columns = [column for column in found if column]
        self.header = f"{_BYTE_ORDER_MARK}{','.join(names)}\r\n".encode()
        shown: dict[str, set[str]] = {resource.type: set()}
        for column in self._columns:
            shown.setdefault(column.type, set()).add(column.field)
        include: Include = {
            column.relationship: {}
            for column in self._columns
            # A period of a history has the ids itself.
            if column.relationship and not (resource.read_only and column.field == "id")
        }
        self.query = replace(query, fields=shown, include=include or None)

    def encode(self, records: Sequence[Record], compound: Compound) -> bytes:
        """Return the lines after the header for records. compound: what the query includes."""
        ends = dict.fromkeys(column.relationship for column in self._columns)
        shown = {name: self._attributes(name, records, compound) for name in ends}
        cells = [
            self._cells(column, records, compound, shown[column.relationship])
            for column in self._columns
        ]
        lines = StringIO()
        csv.writer(lines).writerows(zip(*cells, strict=True))
        return lines.getvalue().encode()

    def _attributes(
        self, relationship: str | None, records: Sequence[Record], compound: Compound
    ) -> Mapping[int, Mapping[str, Any]]:
        """Return the attributes to show of the records, or of related ones, by id."""
        resource, found = self.resource, visible_values(self.resource, records, self.query)
        if relationship is not None:
            resource = self._graph[self.resource.to_one[relationship].target]
            included = (compound.included or {}).get(resource.type, ())
            found = [*included, *(records if resource.type == self.resource.type else ())]
        shown = fieldset(resource, frozenset(self.query.fields[resource.type])).dump_all(found)
        by_id = {record["_id"]: values for record, values in zip(found, shown, strict=True)}
        for name in self.query.counts.get(resource.type, ()):
            for record, count in zip(found, resource.member_counts(name, found), strict=True):
                by_id[record["_id"]][name] = count
        for record in found if resource.subject else ():
            for part, text in zip(_IDENTIFIER, subject_of(resource, record) or (), strict=False):
                by_id[record["_id"]][f"{resource.subject}.{part}"] = text
        return by_id

    def _cells(
        self,
        column: Column,
        records: Sequence[Record],
        compound: Compound,
        shown: Mapping[int, Mapping[str, Any]],
    ) -> Iterable[str]:
        """Return the cell of each record in a column. shown: the attributes by id."""
        keys: list[Any] = [record["_id"] for record in records]
        if column.relationship is not None:
            resource, link = self.resource, self.resource.to_one[column.relationship]
            if resource.read_only:
                keys = [record.get(link.foreign_key) for record in records]
            else:  # the keys of others may lead nowhere
                linkage = compound.linkage[resource.type][link.name]
                keys = [linkage[key] for key in keys]
        if column.field == "id":
            return ["" if key is None else str(key) for key in keys]
        values = [shown[key].get(column.field) if key in shown else None for key in keys]
        if dict in map(type, values):
            return [escaped(orjson.dumps(value).decode()) for value in values]
        attribute = self._graph[column.type].readable.get(column.field)
        if attribute and isinstance(attribute.field, fields.String):
            return [escaped(text) if text else "" for text in values]
        # A negative number is not a formula.
        cells = ["" if value is None else str(value) for value in values]
        return [cell.lower() for cell in cells] if bool in map(type, values) else cells


def _column_names(query: Query, resource: ResourceType, graph: Graph) -> list[str]:
    """Return the column names in order: requested fields, then relationships as `owner.email`.

    Raises RequestError for names that have no column.
    """
    if resource.subject:
        shown = query.fields.get(resource.type, ["id", *resource.attributes, resource.subject])
        both = [f"{resource.subject}.{part}" for part in _IDENTIFIER]
        named = [both if name == resource.subject else [name] for name in shown]
        return [*chain.from_iterable(named)] or ["id"]
    include, columns = query.include or {}, list[str]()
    default = ["id", *resource.attributes, *(resource.to_one if resource.read_only else ())]
    aliases = {link.foreign_key: link.name for link in resource.links}
    own = [aliases.get(name, name) for name in query.fields.get(resource.type, default)]
    paths = [f"{name}.{next(iter(after))}" if after else name for name, after in include.items()]
    errors = ErrorCollector()
    for parameter, chosen in ((f"fields[{resource.type}]", own), ("include", paths)):
        for name in chosen:
            if name not in {"id", *resource.readable, *resource.to_one}:
                allowed = "columns for attributes and to-one relationships"
                detail = f"A CSV document has {allowed}, not for {quoted(name)}."
                errors.add(InvalidParameter(detail, parameter=parameter))
    errors.raise_any()
    for name in dict.fromkeys([*own, *include]):
        if name not in resource.to_one:
            columns.append(name)
            continue
        target, fields = graph[resource.to_one[name].target], ["id"]
        if name in include:
            fields = [*query.fields.get(target.type, ["id", *target.attributes])]
        shown = [attribute for attribute in fields if attribute in {"id", *target.readable}]
        columns += [f"{name}.{attribute}" for attribute in shown or ["id"]]
    for end in [None, *include]:
        target = resource if end is None else graph[resource.to_one[end].target]
        prefix = "" if end is None else f"{end}."
        columns += [f"{prefix}{name}{_COUNT}" for name in query.counts.get(target.type, ())]
    return columns or ["id"]

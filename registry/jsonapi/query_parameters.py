"""The table of query parameters, which parsing, the OpenAPI document and docs/tour.md follow."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from registry.jsonapi.error_objects import ErrorCollector, quoted
from registry.jsonapi.error_types import InvalidParameter
from registry.jsonapi.filtering import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_PART_LENGTH,
    MAX_VALUES,
    NULL,
    filter_operators,
    related_fields,
    related_operator,
)
from registry.jsonapi.pagination import sort_names
from registry.jsonapi.query import (
    AFTER,
    MAX_INCLUDE_STEPS,
    TYPES,
    WITH_COUNT,
    FeedParser,
    FeedQuery,
    Query,
    QueryParser,
    QueryScope,
    unknown_parameter,
)
from registry.jsonapi.row_options import CREATE, KEY, REPLACE, RowOptions, RowOptionsParser
from registry.jsonapi.searching import SEARCH, searched_fields
from registry.model.attributes import Operator
from registry.model.graph import Graph
from registry.model.implicit_attributes import Moment
from registry.model.record import MAX_ID
from registry.model.resource_field import ResourceField
from registry.model.resource_type import Relationship, ResourceType
from registry.protocol import LARGEST_PAGE, LAST_EVENT_ID

_Json: TypeAlias = dict[str, Any]

_Parser = TypeVar("_Parser")
_Scope = TypeVar("_Scope")


class AppliesTo(StrEnum):
    """Where a parameter applies, as the documentation says it."""

    RESOURCES = "all documents with resources"
    COLLECTIONS = "collections"
    FEED = "`/changes`"
    ROWS = "`POST` of a CSV file"


@dataclass(frozen=True, slots=True)
class Variant:
    """A parameter of the OpenAPI document.

    detail: follows the sentence of its row. more: further members of its Parameter Object.
    """

    name: str
    schema: _Json
    detail: str = ""
    more: _Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryParameter(Generic[_Parser, _Scope]):
    """A row of the table.

    name: clients replace words in capital letters. sentence: what it does, for the documentation.
    parse: called with a parser, the name and value that were sent, and what replaces each word;
    raises InvalidParameter, or ApiErrors. describe: yields what it is in the OpenAPI document of a
    scope; nothing if the preceding row does. repeats: whether it can be sent several times; the
    value is then a list of all.
    """

    name: str
    applies_to: AppliesTo
    sentence: str
    parse: Callable[..., None]
    describe: Callable[[_Scope], Iterator[Variant]] = lambda _: iter(())
    repeats: bool = False


_SIZE: _Json = {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE}
_NUMBER: _Json = {"type": "integer", "format": "int64", "minimum": 1, "maximum": MAX_ID}
_STRING: _Json = {"type": "string"}
_BOOLEAN: _Json = {"type": "boolean"}


def _fixed(
    name: str, schema: _Json = _STRING, **more: Any
) -> Callable[[QueryScope], Iterator[Variant]]:
    """Return a description that is the same in each scope."""
    return lambda _: iter([Variant(name, schema, more=more)])


def _page_size(scope: QueryScope) -> Iterator[Variant]:
    detail = f"The default is {scope.page_size}."
    yield Variant("page[size]", _SIZE, detail, {"example": 10})  # Swagger UI fails to show many


def _sort(scope: QueryScope) -> Iterator[Variant]:
    names = sort_names(scope.resource, scope.graph)
    key = f"-?({'|'.join(map(re.escape, names))})"
    # Not an array of names: Swagger UI would send those selected in the order of the list.
    schema = {**_STRING, "pattern": f"^({key}(,{key})*)?$"}
    yield Variant("sort", schema, f"Fields: {quoted(*names)}.", {"allowEmptyValue": True})


def _include(scope: QueryScope) -> Iterator[Variant]:
    _, relationships = scope.start
    if names := [path for path, _ in _include_paths(relationships, scope.graph)]:
        yield Variant("include", _names(names), more={"allowEmptyValue": True})


def _include_paths(
    relationships: Mapping[str, Relationship], graph: Graph, steps: int = MAX_INCLUDE_STEPS
) -> Iterator[tuple[str, Relationship]]:
    if steps:
        for name, relationship in relationships.items():
            yield name, relationship
            following = graph[relationship.target].relationships
            for path, last in _include_paths(following, graph, steps - 1):
                yield f"{name}.{path}", last


def _include_sizes(scope: QueryScope) -> Iterator[Variant]:
    """Describe the paths of one step, or in linkage of two: few need longer ones."""
    _, relationships = scope.start
    steps = 1 if scope.linkage is None else 2
    for path, relationship in _include_paths(relationships, scope.graph, steps):
        if relationship.to_many and path.count(".") == steps - 1:
            yield Variant(f"page[{path}][size]", _SIZE)


def _counts(scope: QueryScope) -> Iterator[Variant]:
    """Describe the names; those of identifiers belong to the resources that `include` adds."""
    _, relationships = scope.start
    least = 1 if scope.linkage is None else 2
    names = [
        path
        for path, relationship in _include_paths(relationships, scope.graph)
        if relationship.to_many and path.count(".") >= least - 1
    ]
    if names:
        yield Variant(WITH_COUNT, _names(names))


def _fields(scope: QueryScope) -> Iterator[Variant]:
    for resource in scope.graph.values():
        more: _Json = {"allowEmptyValue": True}
        if not resource.read_only:
            more["example"] = list(resource.attributes)
        yield Variant(f"fields[{resource.type}]", _names(sorted(resource.fieldset_names)), "", more)


def _conditions(scope: QueryScope) -> Iterator[Variant]:
    # A string: many generators of clients drop an operation if a parameter has JSON as `content`,
    # or a recursive schema.
    own = _example_condition(scope.resource)
    sent = {"none": ("No conditions", ""), "attribute": ("An attribute", json.dumps([own]))}
    for name, relationship in scope.resource.relationships.items():
        target = _example_condition(scope.graph[relationship.target])
        nested = {"name": name, "op": related_operator(relationship), "val": target}
        sent[name] = (f"An attribute of {name}", json.dumps([nested]))
    examples = {name: {"summary": text, "value": value} for name, (text, value) in sent.items()}
    yield Variant("filter", _STRING, f"An example: `{json.dumps([own])}`.", {"examples": examples})


def _example_condition(resource: ResourceType) -> _Json:
    name, attribute = next(iter(resource.attributes.items()))
    return {"name": name, "op": "eq", "val": attribute.example}


def _search(scope: QueryScope) -> Iterator[Variant]:
    names = [each.name for each in searched_fields(scope.resource)]
    if names and SEARCH not in scope.resource.filterable:
        schema = {**_STRING, "minLength": 1, "maxLength": MAX_PART_LENGTH}
        yield Variant(f"filter[{SEARCH}]", schema, f"Attributes: {quoted(*names)}.")


def _comparisons(scope: QueryScope) -> Iterator[Variant]:
    """Describe each field with any operator: one for each would multiply the parameters."""
    resource, graph = scope.resource, scope.graph
    own = resource.filterable
    yield from map(_comparison, [*own.values(), *related_fields(resource, graph)])


def _comparison(attribute: ResourceField) -> Variant:
    name = f"filter[{attribute.name}]"
    if isinstance(attribute.field, Moment):
        return Variant(name, dict(attribute.kind.schema), "The periods in force at this moment.")
    operators = list(filter_operators(attribute))
    if not attribute.nullable:
        operators.remove(NULL)
    value = dict(attribute.kind.schema)
    if attribute.nullable and value != _STRING:
        value = {"anyOf": [value, {**_STRING, "enum": [NULL]}]}
    schema = {"type": "array", "items": value}
    detail = f"`{name}[OPERATOR]` has these: {quoted(*operators)}."
    return Variant(name, schema, detail, {"x-operators": operators})


def _feed_types(graph: Graph) -> Iterator[Variant]:
    names = [resource.type for resource in graph.writable]
    # With an example, as Swagger UI refuses to send an array that is empty.
    yield Variant(TYPES, _names(names) | {"minItems": 1}, more={"example": names})


def _feed_after(_: Graph) -> Iterator[Variant]:
    yield Variant(AFTER, _STRING)


def _names(values: list[str]) -> _Json:
    return {"type": "array", "items": {"type": "string", "enum": values}}


QUERY_PARAMETERS: tuple[QueryParameter[QueryParser, QueryScope], ...] = (
    QueryParameter(
        "page[size]",
        AppliesTo.COLLECTIONS,
        f"The number of resources on a page, at most {LARGEST_PAGE:,}. Without any `page` "
        "parameter, the response is the whole collection.",
        QueryParser.keep,
        _page_size,
    ),
    QueryParameter(
        "page[number]",
        AppliesTo.COLLECTIONS,
        "The number of the page, starting at 1.",
        QueryParser.keep,
        _fixed("page[number]", _NUMBER),
    ),
    QueryParameter(
        "page[after]",
        AppliesTo.COLLECTIONS,
        "The page after this cursor, taken from `meta.page` or a link.",
        QueryParser.keep,
        _fixed("page[after]"),
    ),
    QueryParameter(
        "page[before]",
        AppliesTo.COLLECTIONS,
        "The page before this cursor, taken from `meta.page` or a link.",
        QueryParser.keep,
        _fixed("page[before]"),
    ),
    QueryParameter(
        "page[total]",
        AppliesTo.COLLECTIONS,
        "With `page[number]`: whether to count the resources on all pages, `true` by default. The "
        "total is that of the same point in time as the page; it takes time only with filters.",
        QueryParser.keep,
        _fixed("page[total]", _BOOLEAN),
    ),
    QueryParameter(
        "sort",
        AppliesTo.COLLECTIONS,
        "The fields to sort by, by precedence, separated by commas; `-` before a name is "
        "descending. Null sorts before any value. The id breaks ties; after a field of a related "
        "resource, that resource's id breaks them first. The default is `id`.",
        QueryParser.keep,
        _sort,
    ),
    QueryParameter(
        "include",
        AppliesTo.RESOURCES,
        "The relationships whose resources the response has in `included`, separated by commas; "
        f"`computers.owner` has two steps, of at most {MAX_INCLUDE_STEPS}.",
        QueryParser.keep,
        _include,
    ),
    QueryParameter(
        "page[PATH][size]",
        AppliesTo.RESOURCES,
        "The maximum number of resources to include per resource by a to-many path that `include` "
        "names.",
        QueryParser.include_size,
        _include_sizes,
    ),
    QueryParameter(
        WITH_COUNT,
        AppliesTo.RESOURCES,
        "To-many relationships, separated by commas: each resource has the number of all members "
        "in `meta.count` of the relationship. `owner.computers` counts those of what `include` "
        "adds.",
        QueryParser.keep,
        _counts,
    ),
    QueryParameter(
        "fields[TYPE]",
        AppliesTo.RESOURCES,
        "The fields of the resources of this type, separated by commas. Type, id and links are "
        "always present; relationships depend on `include`.",
        QueryParser.fields,
        _fields,
    ),
    QueryParameter(
        "filter",
        AppliesTo.COLLECTIONS,
        "Conditions in JSON, combined by AND, with the fields and operators of `filter[FIELD]`. "
        f"`and`, `or` and `not` can be nested, in JSON of at most {MAX_DEPTH} levels and "
        f"{MAX_CONDITIONS} conditions. The resource of a to-one relationship (`has`), or any of a "
        "to-many one (`any`), satisfies the condition in `val`, which can be combined too.",
        QueryParser.filter,
        _conditions,
    ),
    QueryParameter(
        f"filter[{SEARCH}]",
        AppliesTo.COLLECTIONS,
        "Resources in which each word is contained in a text attribute, whatever the case. Blanks "
        "separate words. An attribute called `search` has precedence.",
        QueryParser.search,
        _search,
    ),
    QueryParameter(
        "filter[FIELD]",
        AppliesTo.COLLECTIONS,
        "Resources whose field equals the value, or one of several separated by commas. A field "
        "of a related resource is `owner.email`; resources without one do not match.",
        QueryParser.filter,
        _comparisons,
    ),
    QueryParameter(
        "filter[FIELD][OPERATOR]",
        AppliesTo.COLLECTIONS,
        f"Compares by an operator that the attribute has: {quoted(*Operator, NULL)}. "
        f"`in` has at most {MAX_VALUES:,} values, separated by commas; "
        f"`prefix` and `contains` have at most {MAX_PART_LENGTH:,} characters.",
        QueryParser.filter,
    ),
    QueryParameter(
        "filter[FIELD][]",
        AppliesTo.COLLECTIONS,
        "One of several values, each in a parameter of its own with this name; they may contain "
        "commas.",
        QueryParser.filter,
        repeats=True,
    ),
)

FEED_PARAMETERS: tuple[QueryParameter[FeedParser, Graph], ...] = (
    QueryParameter(
        TYPES,
        AppliesTo.FEED,
        "The types whose changes are sent, by default all that the access token may read.",
        FeedParser.types,
        _feed_types,
    ),
    QueryParameter(
        AFTER,
        AppliesTo.FEED,
        "The position after which changes are sent, by default the present. The header "
        f"`{LAST_EVENT_ID}` precedes it.",
        FeedParser.after,
        _feed_after,
    ),
)

ROW_PARAMETERS: tuple[QueryParameter[RowOptionsParser, QueryScope], ...] = (
    QueryParameter(
        KEY,
        AppliesTo.ROWS,
        "What tells resources apart, once per type: `serial`, `first_name,last_name`, or "
        "`owner.email` for the resources that the rows link to. By default, the id, or else a "
        "unique attribute or an e-mail address.",
        RowOptionsParser.key,
        _fixed(KEY, {"type": "array", "items": _STRING}, explode=True),
        repeats=True,
    ),
    QueryParameter(
        "rows[map][COLUMN]",
        AppliesTo.ROWS,
        "The name that replaces that of a column in the header; an empty one leaves it out.",
        RowOptionsParser.map,
        _fixed("rows[map][Serial number]", allowEmptyValue=True),
    ),
    QueryParameter(
        REPLACE,
        AppliesTo.ROWS,
        "Whether empty cells remove values and links. By default, they change nothing.",
        RowOptionsParser.choose,
        _fixed(REPLACE, _BOOLEAN),
    ),
    QueryParameter(
        CREATE,
        AppliesTo.ROWS,
        "Whether to create a new resource from each row.",
        RowOptionsParser.choose,
        _fixed(CREATE, _BOOLEAN),
    ),
)


class _Names(Generic[_Parser, _Scope]):
    """The rows that apply to a request, found by the names of parameters."""

    def __init__(self, rows: Sequence[QueryParameter[_Parser, _Scope]]) -> None:
        self._fixed = {row.name: row for row in rows}
        names = (re.sub("[A-Z]+", _word, re.escape(row.name)) for row in rows)
        self._patterns = list(zip(map(re.compile, names), rows, strict=True))
        self._supported = [row.name for row in rows]

    def parse(
        self, parameters: Iterable[tuple[str, str]], parser: _Parser, errors: ErrorCollector
    ) -> None:
        """Pass the values of parameters to a parser, and collect the errors."""
        sent: dict[str, list[str]] = {}
        for name, value in parameters:
            sent.setdefault(name, []).append(value)
        for name, values in sent.items():
            with errors:
                row, words = self._find(name)
                if not row.repeats and len(values) > 1:
                    detail = f"{quoted(name)} is given more than once."
                    raise InvalidParameter(detail, parameter=name)
                row.parse(parser, name, values if row.repeats else values[0], *words)

    def _find(self, name: str) -> tuple[QueryParameter[_Parser, _Scope], Sequence[str]]:
        """Return the row of a parameter, and what replaces the words in capital letters."""
        if row := self._fixed.get(name):
            return row, ()
        for pattern, candidate in self._patterns:
            if match := pattern.fullmatch(name):
                return candidate, match.groups()
        raise unknown_parameter(name, self._supported)


def _word(placeholder: re.Match[str]) -> str:
    """Return the pattern of what replaces a word. A header can have any text."""
    return "(.+)" if placeholder[0] == "COLUMN" else r"([^\[\]]+)"


_OF_COLLECTIONS = _Names(QUERY_PARAMETERS)
_OF_RESOURCES = _Names([row for row in QUERY_PARAMETERS if row.applies_to is AppliesTo.RESOURCES])
_OF_FEED = _Names(FEED_PARAMETERS)
_OF_ROWS = _Names(ROW_PARAMETERS)


def parse_query(parameters: Iterable[tuple[str, str]], scope: QueryScope) -> Query:
    """Return the query of a request. Raises ApiErrors with all errors.

    parameters: decoded names and values, in order.
    """
    parser = QueryParser(scope)
    names = _OF_COLLECTIONS if scope.many else _OF_RESOURCES
    names.parse(parameters, parser, parser.errors)
    return parser.query()


def parse_feed_query(parameters: Iterable[tuple[str, str]], graph: Graph) -> FeedQuery:
    """Return the query of a follower of the change feed. Raises ApiErrors with all errors."""
    parser = FeedParser(graph)
    _OF_FEED.parse(parameters, parser, parser.errors)
    return parser.query()


def parse_row_options(parameters: Iterable[tuple[str, str]], scope: QueryScope) -> RowOptions:
    """Return how the rows of a file are imported. Raises ApiErrors with all errors."""
    parser = RowOptionsParser(scope.resource, scope.graph)
    _OF_ROWS.parse(parameters, parser, parser.errors)
    return parser.options()

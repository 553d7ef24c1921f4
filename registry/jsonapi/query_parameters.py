"""The table of query parameters, which parsing, the OpenAPI document and docs/tour.md follow."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from registry.jsonapi import parameter_schemas as schemas
from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import InvalidParameter
from registry.jsonapi.filtering import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_PART_LENGTH,
    MAX_VALUES,
    NULL,
)
from registry.jsonapi.parameter_schemas import Variant
from registry.jsonapi.query import (
    AFTER,
    MAX_INCLUDE_STEPS,
    SEARCH,
    TYPES,
    WITH_COUNT,
    FeedQuery,
    Query,
    QueryScope,
)
from registry.jsonapi.query_parser import FeedParser, QueryParser, unknown_parameter
from registry.jsonapi.row_options import CREATE, KEY, REPLACE, RowOptions, RowOptionsParser
from registry.model.attributes import Operator
from registry.model.graph import Graph
from registry.protocol import LARGEST_PAGE, LAST_EVENT_ID


class AppliesTo(StrEnum):
    """Where a parameter applies, as the documentation says it."""

    RESOURCES = "all documents with resources"
    COLLECTIONS = "collections"
    FEED = "`/changes`"
    ROWS = "`POST` of a CSV file"


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A row of the table.

    name: clients replace words in capital letters. sentence: what it does, for the documentation.
    describe: yields what it is in the OpenAPI document of a QueryScope, or for the feed of a Graph;
    nothing if the preceding row does. parse: called with a parser, the name and value that were
    sent, and what replaces each word; raises InvalidParameter, or RequestError. repeats: whether it
    can be sent several times; the value is then a list of all.
    """

    name: str
    applies_to: AppliesTo
    sentence: str
    describe: Callable[[Any], Iterator[Variant]] | None
    parse: Callable[..., None] = QueryParser.keep
    repeats: bool = False


QUERY_PARAMETERS = (
    QueryParameter(
        "page[size]",
        AppliesTo.COLLECTIONS,
        f"The number of resources on a page, at most {LARGEST_PAGE:,}. Without any `page` "
        "parameter, the response is the whole collection.",
        schemas.page_size,
    ),
    QueryParameter(
        "page[number]",
        AppliesTo.COLLECTIONS,
        "The number of the page, starting at 1.",
        schemas.fixed("page[number]", schemas.NUMBER),
    ),
    QueryParameter(
        "page[after]",
        AppliesTo.COLLECTIONS,
        "The page after this cursor, taken from `meta.page` or a link.",
        schemas.fixed("page[after]"),
    ),
    QueryParameter(
        "page[before]",
        AppliesTo.COLLECTIONS,
        "The page before this cursor, taken from `meta.page` or a link.",
        schemas.fixed("page[before]"),
    ),
    QueryParameter(
        "page[total]",
        AppliesTo.COLLECTIONS,
        "With `page[number]`: whether to count the resources on all pages, `true` by default. The "
        "total is that of the same point in time as the page; it takes time only with filters.",
        schemas.fixed("page[total]", schemas.BOOLEAN),
    ),
    QueryParameter(
        "sort",
        AppliesTo.COLLECTIONS,
        "The fields to sort by, by precedence, separated by commas; `-` before a name is "
        "descending. Null sorts before any value. The id breaks ties; after a field of a related "
        "resource, that resource's id breaks them first. The default is `id`.",
        schemas.sort_keys,
    ),
    QueryParameter(
        "include",
        AppliesTo.RESOURCES,
        "The relationships whose resources the response has in `included`, separated by commas; "
        f"`computers.owner` has two steps, of at most {MAX_INCLUDE_STEPS}.",
        schemas.include_paths,
    ),
    QueryParameter(
        "page[PATH][size]",
        AppliesTo.RESOURCES,
        "The maximum number of resources to include per resource by a to-many path that `include` "
        "names.",
        schemas.include_sizes,
        QueryParser.include_size,
    ),
    QueryParameter(
        WITH_COUNT,
        AppliesTo.RESOURCES,
        "To-many relationships, separated by commas: each resource has the number of all members "
        "in `meta.count` of the relationship. `owner.computers` counts those of what `include` "
        "adds.",
        schemas.counts,
    ),
    QueryParameter(
        "fields[TYPE]",
        AppliesTo.RESOURCES,
        "The fields of the resources of this type, separated by commas. Type, id and links are "
        "always present; relationships depend on `include`.",
        schemas.fieldsets,
        QueryParser.fields,
    ),
    QueryParameter(
        "filter",
        AppliesTo.COLLECTIONS,
        "Conditions in JSON, combined by AND, with the fields and operators of `filter[FIELD]`. "
        f"`and`, `or` and `not` can be nested, in JSON of at most {MAX_DEPTH} levels and "
        f"{MAX_CONDITIONS} conditions. The resource of a to-one relationship (`has`), or any of a "
        "to-many one (`any`), satisfies the condition in `val`, which can be combined too.",
        schemas.conditions,
        QueryParser.filter,
    ),
    QueryParameter(
        f"filter[{SEARCH}]",
        AppliesTo.COLLECTIONS,
        "Resources in which each word is contained in a text attribute, whatever the case. Blanks "
        "separate words. An attribute called `search` has precedence.",
        schemas.search,
        QueryParser.search,
    ),
    QueryParameter(
        "filter[FIELD]",
        AppliesTo.COLLECTIONS,
        "Resources whose field equals the value, or one of several separated by commas. A field "
        "of a related resource is `owner.email`; resources without one do not match.",
        schemas.comparisons,
        QueryParser.filter,
    ),
    QueryParameter(
        "filter[FIELD][OPERATOR]",
        AppliesTo.COLLECTIONS,
        f"Compares by an operator that the attribute has: {quoted(*Operator, NULL)}. "
        f"`in` has at most {MAX_VALUES:,} values, separated by commas; "
        f"`prefix` and `contains` have at most {MAX_PART_LENGTH:,} characters.",
        None,
        QueryParser.filter,
    ),
    QueryParameter(
        "filter[FIELD][]",
        AppliesTo.COLLECTIONS,
        "One of several values, each in a parameter of its own with this name; they may contain "
        "commas.",
        None,
        QueryParser.filter,
        repeats=True,
    ),
    QueryParameter(
        KEY,
        AppliesTo.ROWS,
        "What tells resources apart, once per type: `serial`, `first_name,last_name`, or "
        "`owner.email` for the resources that the rows link to. By default, the id, or else a "
        "unique attribute or an e-mail address.",
        schemas.fixed(KEY, {"type": "array", "items": schemas.STRING}, explode=True),
        RowOptionsParser.key,
        repeats=True,
    ),
    QueryParameter(
        "rows[map][COLUMN]",
        AppliesTo.ROWS,
        "The name that replaces that of a column in the header; an empty one leaves it out.",
        schemas.fixed("rows[map][Serial number]", allowEmptyValue=True),
        RowOptionsParser.map,
    ),
    QueryParameter(
        REPLACE,
        AppliesTo.ROWS,
        "Whether empty cells remove values and links. By default, they change nothing.",
        schemas.fixed(REPLACE, schemas.BOOLEAN),
        RowOptionsParser.choose,
    ),
    QueryParameter(
        CREATE,
        AppliesTo.ROWS,
        "Whether to create a new resource from each row.",
        schemas.fixed(CREATE, schemas.BOOLEAN),
        RowOptionsParser.choose,
    ),
    QueryParameter(
        TYPES,
        AppliesTo.FEED,
        "The types whose changes are sent, by default all that the access token may read.",
        schemas.feed_types,
        FeedParser.types,
    ),
    QueryParameter(
        AFTER,
        AppliesTo.FEED,
        "The position after which changes are sent, by default the present. The header "
        f"`{LAST_EVENT_ID}` precedes it.",
        schemas.feed_position,
        FeedParser.after,
    ),
)


class _Names:
    """The rows that apply to a request, found by the names of parameters."""

    def __init__(self, *applying: AppliesTo) -> None:
        rows = [row for row in QUERY_PARAMETERS if row.applies_to in applying]
        self._fixed = {row.name: row for row in rows}
        names = (re.sub("[A-Z]+", _word, re.escape(row.name)) for row in rows)
        self._patterns = list(zip(map(re.compile, names), rows, strict=True))
        self._supported = [row.name for row in rows]

    def parse(
        self,
        parameters: Iterable[tuple[str, str]],
        parser: QueryParser | FeedParser | RowOptionsParser,
    ) -> None:
        """Pass the values of parameters to a parser, which collects the errors."""
        sent: dict[str, list[str]] = {}
        for name, value in parameters:
            sent.setdefault(name, []).append(value)
        for name, values in sent.items():
            with parser.errors:
                row, words = self._find(name)
                if not row.repeats and len(values) > 1:
                    detail = f"{quoted(name)} is given more than once."
                    raise InvalidParameter(detail, parameter=name)
                row.parse(parser, name, values if row.repeats else values[0], *words)

    def _find(self, name: str) -> tuple[QueryParameter, Sequence[str]]:
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


_OF_COLLECTIONS = _Names(AppliesTo.COLLECTIONS, AppliesTo.RESOURCES)
_OF_RESOURCES = _Names(AppliesTo.RESOURCES)
_OF_FEED = _Names(AppliesTo.FEED)
_OF_ROWS = _Names(AppliesTo.ROWS)


def parse_query(parameters: Iterable[tuple[str, str]], scope: QueryScope) -> Query:
    """Return the query of a request. Raises RequestError with all errors.

    parameters: decoded names and values, in order.
    """
    parser = QueryParser(scope)
    (_OF_COLLECTIONS if scope.many else _OF_RESOURCES).parse(parameters, parser)
    return parser.query()


def parse_feed_query(parameters: Iterable[tuple[str, str]], graph: Graph) -> FeedQuery:
    """Return the query of a follower of the change feed. Raises RequestError with all errors."""
    parser = FeedParser(graph)
    _OF_FEED.parse(parameters, parser)
    return parser.query()


def parse_row_options(parameters: Iterable[tuple[str, str]], scope: QueryScope) -> RowOptions:
    """Return how the rows of a file are imported. Raises RequestError with all errors."""
    parser = RowOptionsParser(scope.resource, scope.graph)
    _OF_ROWS.parse(parameters, parser)
    return parser.options()

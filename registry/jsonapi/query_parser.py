"""The values of query parameters -> a query (JSON:API 1.0, Fetching Data)."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set

from registry.jsonapi.error_objects import ErrorCollector, quoted, unknown
from registry.jsonapi.error_types import InvalidParameter
from registry.jsonapi.filtering import (
    MAX_CONDITIONS,
    MAX_PART_LENGTH,
    AllOf,
    AnyOf,
    Condition,
    Filter,
    parse_filter,
)
from registry.jsonapi.pagination import BY_ID, MEMBERS, parse_page, parse_size, parse_sort
from registry.jsonapi.query import (
    MAX_INCLUDE_STEPS,
    SEARCH,
    WITH_COUNT,
    FeedQuery,
    Include,
    IncludePath,
    Query,
    QueryScope,
)
from registry.model.attributes import Operator
from registry.model.graph import Graph
from registry.model.resource_field import ResourceField
from registry.model.resource_type import ResourceType

_PAGE = {name: f"page[{name}]" for name in MEMBERS}


def unknown_parameter(name: str, supported: Collection[str] = ()) -> InvalidParameter:
    """Return the error for a parameter that the request does not support."""
    detail = f"Unknown query parameter {quoted(name)}; supported: {quoted(*supported)}."
    return InvalidParameter(detail, parameter=name)


def reject_parameters(names: Iterable[str]) -> None:
    """Raise RequestError with an InvalidParameter for each: the path supports none."""
    errors = ErrorCollector()
    for name in dict.fromkeys(names):
        errors.add(unknown_parameter(name))
    errors.raise_any()


def searched_fields(resource: ResourceType) -> list[ResourceField]:
    """Return the text attributes; what is computed from them has no other words."""
    own = (each for each in resource.attributes.values() if each.is_own and not each.is_computed)
    return [each for each in own if Operator.CONTAINS in each.kind.operators]


class QueryParser:
    """Parses the values of parameters one by one, and at the end those that depend on each other.

    Its methods raise RequestError with each InvalidParameter. parameter: as it was sent.
    """

    def __init__(self, scope: QueryScope) -> None:
        self.errors = ErrorCollector()
        self._scope = scope
        self._fields: dict[str, Set[str]] = {}
        self._filters: dict[str, Filter] = {}
        self._texts: dict[str, str] = {}
        self._include_sizes: dict[str, str] = {}

    def keep(self, parameter: str, value: str) -> None:
        """Take a value that depends on those of other parameters, to parse it at the end."""
        self._texts[parameter] = value

    def include_size(self, _: str, value: str, path: str) -> None:
        """Take the maximum number of resources to include at the end of a path."""
        self._include_sizes[path] = value

    def filter(self, parameter: str, value: str | list[str], *brackets: str) -> None:
        """Take a filter. brackets: its field and operator; none if the value is JSON."""
        resource, graph = self._scope.resource, self._scope.graph
        self._filters[parameter] = parse_filter(parameter, brackets, value, resource, graph)

    def search(self, parameter: str, value: str) -> None:
        """Take the words to search for, unless an attribute has this name."""
        resource = self._scope.resource
        if SEARCH in resource.filterable:
            self.filter(parameter, value, SEARCH)
        else:
            self._filters[parameter] = _parse_search(parameter, value, resource)

    def fields(self, parameter: str, value: str, type_name: str) -> None:
        """Take the fields of a type, separated by commas (JSON:API 1.0, Sparse Fieldsets)."""
        if (resource := self._scope.graph.get(type_name)) is None:
            detail = unknown(type_name, "a type", self._scope.graph)
            raise InvalidParameter(detail, parameter=parameter)
        names = dict.fromkeys(value.split(",") if value else ()).keys()
        if refused := sorted(names - resource.fieldset_names):
            supported = sorted(resource.fieldset_names)
            detail = f"Unknown fields of `{type_name}`: {quoted(*refused)}; available: "
            raise InvalidParameter(f"{detail}{quoted(*supported)}.", parameter=parameter)
        self._fields[type_name] = names

    def query(self) -> Query:
        """Return the query. Raises RequestError if any parameter is not valid."""
        scope, errors, texts = self._scope, self.errors, self._texts
        order, included, sizes, page = None, None, dict[IncludePath, int](), None
        counts: Mapping[str, Iterable[str]] = {}
        with errors:
            order = parse_sort(texts.get("sort", ""), scope.resource, scope.graph)
        with errors:
            included = _parse_include(texts.get("include", ""), scope)
        with errors:
            if included is not None and WITH_COUNT in texts:
                counts = _parse_counts(texts[WITH_COUNT], included[0], scope)
        for path, value in self._include_sizes.items():
            parameter, steps = f"page[{path}][size]", tuple(path.split("."))
            with errors:
                if included is not None and steps not in included[1]:
                    detail = f"{quoted(path)} is not a to-many relationship that `include` names."
                    raise InvalidParameter(detail, parameter=parameter)
                sizes[steps] = parse_size(value, parameter)
        with errors:
            if members := {name: texts[sent] for name, sent in _PAGE.items() if sent in texts}:
                page = parse_page(members, scope.page_size, scope.resource, order)
        errors.raise_any()
        tree = included[0] if included is not None and "include" in texts else None
        return Query(self._fields, tree, sizes, counts, order or BY_ID, self._filters, page)


class FeedParser:
    """Parses the parameters of the change feed; as QueryParser."""

    def __init__(self, graph: Graph) -> None:
        self.errors = ErrorCollector()
        self._known = [resource.type for resource in graph.writable]
        self._types: tuple[str, ...] | None = None
        self._after: str | None = None

    def after(self, _: str, value: str) -> None:
        """Take a position."""
        self._after = value

    def types(self, parameter: str, value: str) -> None:
        """Take names of types, separated by commas."""
        self._types = tuple(value.split(","))
        for name in dict.fromkeys(self._types):
            if name not in self._known:
                detail = unknown(name, "a type", self._known)
                self.errors.add(InvalidParameter(detail, parameter=parameter))

    def query(self) -> FeedQuery:
        """Return the query. Raises RequestError if any parameter is not valid."""
        self.errors.raise_any()
        return FeedQuery(self._types, self._after)


def _parse_search(parameter: str, text: str, resource: ResourceType) -> Filter:
    """Return the filter of a search; blanks separate words. Raises InvalidParameter."""
    fields, words = searched_fields(resource), dict.fromkeys(text.split())
    detail, most = "", MAX_CONDITIONS // max(1, len(fields))
    if not fields:
        detail = f"`{resource.type}` has no text attributes to search."
    elif not words:
        detail = "A search must have at least one word."
    elif len(text) > MAX_PART_LENGTH:
        detail = f"A search must have at most {MAX_PART_LENGTH} characters, not {len(text)}."
    elif len(words) > most:
        detail = f"A search of `{resource.type}` must have at most {most} words, not {len(words)}."
    elif text != text.encode(errors="ignore").decode():
        detail = "The value is not UTF-8."
    if detail:
        raise InvalidParameter(detail, parameter=parameter)
    names = [each.stored_name for each in fields]
    return AllOf(
        tuple(
            AnyOf(tuple(Condition(name, Operator.CONTAINS, word) for name in names))
            for word in words
        )
    )


def _steps_of(path: str, parameter: str) -> list[str]:
    """Return the names in a path. Raises InvalidParameter if there are too many."""
    steps = path.split(".")
    if len(steps) > MAX_INCLUDE_STEPS:
        detail = f"{quoted(path)} has {len(steps)} steps; the maximum is {MAX_INCLUDE_STEPS}."
        raise InvalidParameter(detail, parameter=parameter)
    return steps


def _parse_include(value: str, scope: QueryScope) -> tuple[Include, set[IncludePath]]:
    """Return include paths as a tree, and those that lead to several resources."""
    root, to_many, errors = dict[str, Include](), set[IncludePath](), ErrorCollector()
    for path in dict.fromkeys(value.split(",")) if value else ():
        tree, (resource, relationships) = root, scope.start
        with errors:
            steps = _steps_of(path, "include")
            for number, step in enumerate(steps, 1):
                if step == resource.subject:
                    if number < len(steps):
                        detail = f"{quoted(path)} must end with {quoted(step)}."
                        raise InvalidParameter(detail, parameter="include")
                    tree.update({link.name: {} for link in resource.links})
                    break
                if step not in relationships:
                    names = [*relationships, *([resource.subject] if resource.subject else [])]
                    detail = (
                        f"{quoted(step)} in {quoted(path)} is not a relationship of "
                        f"`{resource.type}` that can be included; available: {quoted(*names)}."
                    )
                    raise InvalidParameter(detail, parameter="include")
                if relationships[step].to_many and not (scope.linkage and number == 1):
                    to_many.add(tuple(steps[:number]))
                resource = scope.graph[relationships[step].target]
                relationships = resource.relationships
                tree = tree.setdefault(step, {})  # type: ignore[assignment] # built here: mutable
    errors.raise_any()
    return root, to_many


def _parse_counts(value: str, include: Include, scope: QueryScope) -> Mapping[str, Iterable[str]]:
    """Return the to-many relationships to count, by the type that has them."""
    counts, errors, sent = defaultdict[str, dict[str, None]](dict), ErrorCollector(), set[str]()
    for text in value.split(","):
        tree, (resource, relationships) = include, scope.start
        with errors:
            *path, name = _steps_of(text, WITH_COUNT)
            for step in path or ([""] if scope.linkage else ()):  # identifiers have no counts
                if step not in tree or step not in relationships:
                    detail = f"{quoted(text)} must begin with a path that `include` names."
                    raise InvalidParameter(detail, parameter=WITH_COUNT)
                tree, resource = tree[step], scope.graph[relationships[step].target]
                relationships = resource.relationships
            if name not in resource.count_fields:
                kind = f"a to-many relationship of `{resource.type}`"
                if name in relationships and relationships[name].to_many:
                    kind += " that can be counted, as its members expire"
                detail = unknown(name, kind, resource.count_fields)
                raise InvalidParameter(detail, parameter=WITH_COUNT)
            if text in sent:
                detail = f"{quoted(text)} must not be repeated."
                raise InvalidParameter(detail, parameter=WITH_COUNT)
            sent.add(text)
            counts[resource.type][name] = None
    errors.raise_any()
    return counts

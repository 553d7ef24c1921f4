"""`filter` -> conditions on the resources of a type, and combinations of them (JSON:API 1.0).

There are two equivalent notations: `filter[last_name][prefix]=Ho` for one condition, and `filter=`
with a JSON array of conditions, which can be combined by `and`, `or` and `not`. Both follow one
relationship: `filter[owner.last_name]=Hopper`, or `has` (to-one) and `any` (to-many) in JSON.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any, TypeAlias

import orjson
from marshmallow import ValidationError

from registry.jsonapi.error_objects import ErrorCollector, JsonPointer, json_defect, quoted
from registry.jsonapi.error_types import InvalidParameter
from registry.model.attributes import EQUALITY, Operator
from registry.model.graph import Graph
from registry.model.implicit_attributes import SINCE, UNTIL, Moment
from registry.model.resource_field import ResourceField
from registry.model.resource_type import Relationship, ResourceType

MAX_VALUES = 1_000
"""The maximum number of values of `in`."""

MAX_PART_LENGTH = 1_000
"""The maximum length of a `prefix`, and of what a text `contains`: longer than the attributes."""

NULL = "null"
"""The operator that tests for null; it is parsed to EQ or NE with null."""

MAX_DEPTH = 32
"""The maximum nesting depth of arrays and objects in a filter in JSON."""

MAX_CONDITIONS = 250
"""The maximum number of conditions in JSON, each of which may be compared with every resource."""

_MEMBERS = ("name", "op", "val")
_COMBINATORS = ("and", "or", "not")
_HAS, _ANY = "has", "any"

Filter: TypeAlias = "Condition | Related | AllOf | AnyOf | Not"


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a stored field with a value as in a record.

    value: a tuple for IN, text for PREFIX and CONTAINS. Only EQ, NE and IN take null.
    """

    stored_name: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class Related:
    """Matches if the part matches a related resource. The part has no other Related."""

    relationship: Relationship
    target: ResourceType
    part: Filter


@dataclass(frozen=True, slots=True)
class AllOf:
    """Matches if every part does; always if there are none."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Matches if at least one part does. There is at least one."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Matches if the part does not."""

    part: Filter


def conjuncts(filters: Iterable[Filter]) -> Iterator[Filter]:
    """Yield the parts of filters that must all match; every AllOf is replaced by its parts."""
    for part in filters:
        if isinstance(part, AllOf):
            yield from conjuncts(part.parts)
        else:
            yield part


def related_filters(condition: Filter) -> Iterator[Related]:
    """Yield the conditions on related resources that a filter contains."""
    return (part for part, _ in _parts(condition) if isinstance(part, Related))


def names_related(condition: Filter) -> bool:
    """Return whether a filter contains conditions on related resources."""
    return any(True for _ in related_filters(condition))


def filtered_fields(
    condition: Filter, resource: ResourceType
) -> Iterator[tuple[ResourceType, str]]:
    """Yield the type and the stored name of each field that a filter compares, each time."""
    for part, related in _parts(condition):
        if isinstance(part, Condition):
            yield related.target if related else resource, part.stored_name


def _parts(
    condition: Filter, related: Related | None = None
) -> Iterator[tuple[Filter, Related | None]]:
    """Yield a filter and all its parts, each with the condition on related resources around it."""
    yield condition, related
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _parts(part, related)
        case Not(part):
            yield from _parts(part, related)
        case Related(part=part):
            yield from _parts(part, condition)


def parse_filter(
    parameter: str,
    brackets: Sequence[str],
    value: str | list[str],
    resource: ResourceType,
    graph: Graph,
) -> Filter:
    """Return the filter of a query parameter. Raises RequestError with each InvalidParameter.

    brackets: a field and perhaps an operator; none if the value is JSON. value: a list is one of
    values to compare with.
    """
    fields = resource.filterable
    related = resource.relationships
    parser = _Parser(parameter, bool(brackets), graph, fields, related, conditions=[])
    try:
        "".join(value).encode()  # bytes that are not UTF-8 arrive as lone surrogates
    except UnicodeEncodeError as error:
        raise parser.error("The value is not UTF-8.") from error
    if isinstance(value, list):
        return parser.comparison(brackets[0], Operator.IN, value)
    return parser.parse_text(*brackets, text=value) if brackets else parser.parse_json(value)


def related_operator(relationship: Relationship) -> str:
    """Return the operator of conditions in JSON on the resources of a relationship."""
    return _ANY if relationship.to_many else _HAS


def related_fields(relationships: Mapping[str, Relationship], graph: Graph) -> list[ResourceField]:
    """Return the fields of related resources that conditions can name, such as `owner.email`."""
    return [
        field.renamed(f"{name}.{field.name}")
        for name, relationship in relationships.items()
        for field in _fields_of_related(graph[relationship.target]).values()
    ]


def filter_operators(field: ResourceField) -> tuple[str, ...]:
    """Return the operators that clients can compare an attribute by."""
    operators = field.kind.operators
    return operators if isinstance(field.field, Moment) else (*operators, NULL)


def _fields_of_related(resource: ResourceType) -> dict[str, ResourceField]:
    """Return what conditions can name of a type when its resources are related ones."""
    return {name: field for name, field in resource.filterable.items() if field.is_own}


@dataclass(frozen=True, slots=True)
class _Parser:
    """Parses the value of one parameter; its methods raise InvalidParameter or RequestError.

    from_text: whether values are those of a query parameter, not JSON. relationships: those whose
    resources conditions can be on; none in the conditions on related resources. conditions: those
    so far, as they were sent.
    """

    parameter: str
    from_text: bool
    graph: Graph
    fields: Mapping[str, ResourceField]
    relationships: Mapping[str, Relationship]
    conditions: list[Condition]

    def error(self, detail: str, *path: str | int) -> InvalidParameter:
        """Return the error for a position in JSON."""
        if path and not self.from_text:
            detail = f"At `{reduce(JsonPointer.__truediv__, path, JsonPointer())}`: {detail}"
        return InvalidParameter(detail, parameter=self.parameter)

    def parse_text(self, name: str, operator: str | None = None, *, text: str) -> Filter:
        """Return the condition of a parameter that names a field."""
        field, _ = self._field(name)
        value: Any = text
        if operator is None:
            # An empty value is an empty list, except for free text, where it is a value.
            operators = field.kind.operators
            is_empty_list = not text and Operator.PREFIX not in operators
            is_list = Operator.IN in operators and (is_empty_list or "," in text)
            operator = Operator.IN if is_list else Operator.EQ
        if operator == NULL:
            value = {"true": True, "false": False}.get(text, text)
        elif operator == Operator.IN:
            value = text.split(",") if text else []
        return self.comparison(name, operator, value)

    def parse_json(self, text: str) -> Filter:
        """Return the conjunction of the conditions in a JSON array."""
        too_deep = self.error(f"A filter can be nested at most {MAX_DEPTH} levels deep.")
        try:
            conditions = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            if error.msg.startswith("depth limit"):
                raise too_deep from error
            raise self.error(f"The value {json_defect(error)}.") from error
        # The methods below, and the encoder of error details, recurse into the value.
        if _depth(conditions) > MAX_DEPTH:
            raise too_deep
        parsed = AllOf(self._list(conditions))
        count = len(self.conditions)
        if count > MAX_CONDITIONS:
            detail = f"A filter must have at most {MAX_CONDITIONS} conditions, not {count}."
            raise self.error(detail)
        return parsed

    def _list(self, conditions: Any, *path: str | int) -> tuple[Filter, ...]:
        if not isinstance(conditions, list):
            detail = f"Conditions must be a list, not {_quoted_json(conditions)}."
            raise self.error(detail, *path)
        parts, errors = list[Filter](), ErrorCollector()
        for index, condition in enumerate(conditions):
            with errors:
                parts.append(self._object(condition, *path, index))
        errors.raise_any()
        return tuple(parts)

    def _object(self, condition: Any, *path: str | int) -> Filter:
        members = len(condition) if isinstance(condition, dict) else 0
        match condition:
            case {"name": str(name), "op": str(operator), "val": value} if members == len(_MEMBERS):
                relationship = self.relationships.get(name)
                if relationship and (operator in {_HAS, _ANY} or name not in self.fields):
                    return self._related(relationship, operator, value, *path)
                return self.comparison(name, operator, value, *path)
            case {"and": parts} if members == 1:
                return AllOf(self._list(parts, *path, "and"))
            case {"or": []} if members == 1:
                raise self.error("`or` must have at least one condition.", *path)
            case {"or": parts} if members == 1:
                return AnyOf(self._list(parts, *path, "or"))
            case {"not": part} if members == 1:
                return Not(self._object(part, *path, "not"))
        raise self.error(_defect(condition), *path)

    def _related(
        self, relationship: Relationship, operator: str, value: Any, *path: str | int
    ) -> Filter:
        supported = related_operator(relationship)
        if operator != supported:
            kind = "to-many" if relationship.to_many else "to-one"
            detail = f"`{relationship.name}` is {kind}, which {quoted(supported)} filters by, not"
            raise self.error(f"{detail} {quoted(operator)}.", *path, "op")
        target = self.graph[relationship.target]
        inner = replace(self, fields=_fields_of_related(target), relationships={})
        return Related(relationship, target, inner._object(value, *path, "val"))

    def comparison(self, name: str, operator: str, value: Any, *path: str | int) -> Filter:
        """Return the condition that a field has a value, or one of several."""
        field, relationship = self._field(name, *path)
        condition = self._condition(field, operator, value, *path)
        self.conditions.append(condition)
        part = self._expanded(condition, field)
        if relationship is None:
            return part
        return Related(relationship, self.graph[relationship.target], part)

    def _expanded(self, condition: Condition, field: ResourceField) -> Filter:
        """Rewrite conditions on virtual fields: `at` becomes since <= T < until.

        Null is earlier than any time in `since`, and later in `until`.
        """
        if not isinstance(field.field, Moment):
            return condition
        bounds = ((SINCE, Operator.LE), (UNTIL, Operator.GT))
        return AllOf(
            tuple(
                AnyOf(
                    (Condition(name, Operator.EQ, None), Condition(name, operator, condition.value))
                )
                for name, operator in bounds
            )
        )

    def _field(self, name: str, *path: str | int) -> tuple[ResourceField, Relationship | None]:
        if name in self.fields:
            return self.fields[name], None
        # Not all paths: types with many relationships have hundreds, and requests many conditions.
        link, _, field_name = name.partition(".")
        if relationship := self.relationships.get(link):
            fields = _fields_of_related(self.graph[relationship.target])
            if field := fields.get(field_name):
                return field.renamed(name), relationship
        related = related_fields(self.relationships, self.graph)
        available = quoted(*self.fields, *(field.name for field in related))
        detail = f"Unknown filter field {quoted(name)}; available: {available}."
        raise self.error(detail, *path, "name")

    def _condition(
        self, field: ResourceField, operator: str, value: Any, *path: str | int
    ) -> Condition:
        operators = filter_operators(field)
        if operator not in operators:
            detail = f"`{field.name}` does not support the operator {quoted(operator)}"
            raise self.error(f"{detail}; supported: {quoted(*operators)}.", *path, "op")
        if operator == NULL:
            if not isinstance(value, bool):
                detail = f"must be true or false, not {_quoted_json(value)}"
                raise self.error(f"`null` of `{field.name}` {detail}.", *path, "val")
            comparison = Operator.EQ if value else Operator.NE
            return Condition(field.stored_name, comparison, None)
        comparison = Operator(operator)
        if comparison is not Operator.IN:
            operand = self._operand(field, comparison, value, *path, "val")
            return Condition(field.stored_name, comparison, operand)
        if not isinstance(value, list):
            detail = f"`in` of `{field.name}` must be a list, not {_quoted_json(value)}."
            raise self.error(detail, *path, "val")
        if len(value) > MAX_VALUES:
            detail = f"must have at most {MAX_VALUES} values, not {len(value)}"
            raise self.error(f"`in` of `{field.name}` {detail}.", *path, "val")
        operands = (
            self._operand(field, comparison, member, *path, "val", index)
            for index, member in enumerate(value)
        )
        return Condition(field.stored_name, comparison, tuple(operands))

    def _operand(
        self, field: ResourceField, operator: Operator, value: Any, *path: str | int
    ) -> Any:
        """Return the stored form of a value to compare with."""
        from_text = self.from_text
        if operator in EQUALITY and field.nullable and value == (NULL if from_text else None):
            return None
        if value is None and operator not in EQUALITY:
            raise self.error(f"`{operator}` of `{field.name}` must not be null.", *path)
        if operator.operand == "part" and isinstance(value, str):
            if len(value) > MAX_PART_LENGTH:
                limit = f"must have at most {MAX_PART_LENGTH} characters, not {len(value)}"
                raise self.error(f"`{operator}` of `{field.name}` {limit}.", *path)
            return value  # a part of a value does not have to be valid by itself
        try:
            return field.from_text(value) if from_text else field.from_json(value)
        except ValidationError as error:
            detail = f"must be compared with {field.kind.expected}, not {_quoted_json(value)}"
            raise self.error(f"`{field.name}` {detail}.", *path) from error


def _depth(value: Any) -> int:
    """Return how deeply the arrays and objects of a JSON value are nested."""
    depth, level = 0, [value]
    while containers := [part for part in level if isinstance(part, list | dict)]:
        depth += 1
        parts = (part if isinstance(part, list) else part.values() for part in containers)
        level = list(chain.from_iterable(parts))
    return depth


def _defect(condition: Any) -> str:
    """Return the error detail for a condition of an unknown shape."""
    if not isinstance(condition, Mapping):
        return f"A condition must be an object, not {_quoted_json(condition)}."
    if condition.keys() == set(_MEMBERS):
        return f"`name` and `op` must be strings, not as in {_quoted_json(condition)}."
    return (
        f"A condition must have either {quoted(*_MEMBERS)} or one of {quoted(*_COMBINATORS)}; "
        f"{_quoted_json(condition)} has {quoted(*condition)}."
    )


def _quoted_json(value: Any) -> str:
    """Return a value as JSON in backticks, for the detail of an error."""
    return quoted(orjson.dumps(value).decode())

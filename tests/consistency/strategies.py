"""Attributes and queries as hypothesis generates them: few values, so that many are equal."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from registry.jsonapi.filtering import filter_operators
from registry.model.graph import Graph
from registry.resources import RESOURCES
from tests.consistency.model import ATTRIBUTES, RELATIONSHIPS, TARGETS, Condition, Query

_GRAPH = Graph(RESOURCES)

types = st.sampled_from(["person", "computer"])

TEXTS = ["a", "A", "b", "ab", "é", "É", "a\0", "\uffff", "😀", "null", "$ne"]

_frequent_texts = st.sampled_from(TEXTS)

texts = _frequent_texts | st.text("aAbBzé ,.*(%_$&=?#", min_size=1, max_size=4)

EMAILS = [None, "a@example.com", "A@example.com", "b@example.org", "é@b.org", "É@b.org", "c@c.org"]

emails = st.sampled_from(EMAILS)

NAMES = {
    "person": ["id", *ATTRIBUTES["person"]],
    "computer": ["id", *ATTRIBUTES["computer"], "owner"],
}
SORT_NAMES = {
    "person": NAMES["person"],
    "computer": [*NAMES["computer"], "owner.id", *(f"owner.{a}" for a in ATTRIBUTES["person"])],
}
_FIELD_NAMES = {
    "person": [*NAMES["person"], "computers"],
    "computer": [*NAMES["computer"], "person"],
}


@st.composite
def attributes(draw: st.DrawFn, type_name: str, *, creating: bool) -> dict[str, Any]:
    """Return attributes to write: all that are required when creating."""
    required = {"person": ["first_name", "last_name"], "computer": ["serial"]}[type_name]
    values = dict.fromkeys(required, texts)
    optional = {"email": emails} if type_name == "person" else {}
    if creating:
        return draw(st.fixed_dictionaries(values, optional=optional))
    return draw(st.fixed_dictionaries({}, optional={**values, **optional}))


@st.composite
def includes(draw: st.DrawFn, type_name: str) -> tuple[str, ...] | None:
    """Return paths of up to three steps."""
    first = RELATIONSHIPS[type_name]
    second = RELATIONSHIPS[TARGETS[first]]
    paths = [first, f"{first}.{second}", f"{first}.{second}.{first}"]
    chosen = draw(st.none() | st.lists(st.sampled_from(paths), max_size=2, unique=True))
    return None if chosen is None else tuple(chosen)


def counts(type_name: str, include: tuple[str, ...] | None) -> st.SearchStrategy[tuple[str, ...]]:
    """Return paths to `computers`: of the primary data, or of persons that `include` names."""
    paths = set(include or ()) | {path.rpartition(".")[0] for path in include or ()}
    owners = [path for path in paths if path.endswith("owner") and path.count(".") < 2]
    known = [
        *(["computers"] if type_name == "person" else []),
        *(f"{path}.computers" for path in owners),
    ]
    if not known:
        return st.just(())
    return st.lists(st.sampled_from(sorted(known)), max_size=2, unique=True).map(tuple)


@st.composite
def resource_queries(draw: st.DrawFn, type_name: str) -> Query:
    """Return a query for a single resource."""
    to_many = "computers" if type_name == "person" else "owner.computers"
    include = draw(st.just((to_many,)) | includes(type_name))
    chosen = draw(st.lists(types, max_size=2, unique=True))
    names = {
        name: st.lists(st.sampled_from(_FIELD_NAMES[name]), unique=True).map(tuple)
        for name in chosen
    }
    # A size applies to one path: another path to the same relationship would show all members.
    is_single = include == (to_many,)
    sizes = {to_many: draw(st.integers(1, 3))} if is_single and draw(st.booleans()) else {}
    counted = draw(counts(type_name, include))
    return Query(draw(st.fixed_dictionaries(names)), include, sizes, counted)


@st.composite
def collection_queries(draw: st.DrawFn, type_name: str, ids: Sequence[int]) -> Query:
    """Return a query for a collection, with a numbered page or none. ids: to compare with."""
    base = draw(resource_queries(type_name))
    names = SORT_NAMES[type_name]
    keys = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
    sort = tuple(draw(st.sampled_from(["", "-"])) + key for key in keys)
    condition = conditions(type_name, ids) | related_conditions(type_name, ids)
    single: list[Condition] = []
    several: list[Condition] = []
    match draw(st.sampled_from(["all", "one", "combined"])):
        case "one":
            single = [draw(condition.filter(_has_notation))]
        case "combined":
            combined = st.recursive(condition, _combinations, max_leaves=3)
            several = draw(st.lists(combined, min_size=1, max_size=2))
    page: dict[str, int | str] = {}
    if draw(st.booleans()):
        page = {"number": draw(st.integers(1, 3)), "size": draw(st.integers(1, 4))}
        page |= draw(st.sampled_from([{}, {"total": "false"}]))
    words = st.lists(_frequent_texts, max_size=2) if draw(st.booleans()) else st.just([])
    return replace(
        base,
        sort=sort,
        search=(*draw(words),),
        conditions=(*single,),
        combined=(*several,),
        page=page,
    )


@st.composite
def conditions(draw: st.DrawFn, type_name: str, ids: Sequence[int]) -> Condition:
    """Return a comparison of a field with a value."""
    name = draw(st.sampled_from(NAMES[type_name]))
    operator = draw(st.sampled_from(operators(type_name, name)))
    values: st.SearchStrategy[Any] = st.integers(1, 3) | st.sampled_from(ids or [1])
    if name not in {"id", "owner"}:
        values = emails.filter(bool) | texts if name == "email" else _frequent_texts | texts
    is_nullable = name in {"email", "owner"}
    operand = st.none() | values if is_nullable and operator in {"eq", "ne", "in"} else values
    if operator == "null":
        operand = st.booleans()
    if operator == "in":
        operand = st.lists(operand, max_size=3)
    return {"name": name, "op": operator, "val": draw(operand)}


@st.composite
def related_conditions(draw: st.DrawFn, type_name: str, ids: Sequence[int]) -> Condition:
    """Return a condition on related resources, as a path or below `has` or `any`."""
    relationship = RELATIONSHIPS[type_name]
    condition = conditions(TARGETS[relationship], ids).filter(
        lambda condition: condition["name"] != "owner"
    )
    if draw(st.booleans()):
        part = draw(condition)
        return {**part, "name": f"{relationship}.{part['name']}"}
    operator = "has" if relationship == "owner" else "any"
    parts = draw(st.recursive(condition, _combinations, max_leaves=2))
    return {"name": relationship, "op": operator, "val": parts}


def operators(type_name: str, name: str) -> list[str]:
    """Return the operators of a field: all that the service has must be in the model."""
    return [str(operator) for operator in filter_operators(_GRAPH[type_name].filterable[name])]


def _has_notation(condition: Condition) -> bool:
    """Return whether `filter[name][op]` can express a condition: commas separate values."""
    value = condition["val"]
    if isinstance(value, dict):
        return False
    return not isinstance(value, list) or not any("," in str(member) for member in value)


def _combinations(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.fixed_dictionaries({"and": st.lists(parts, max_size=2)})
        | st.fixed_dictionaries({"or": st.lists(parts, min_size=1, max_size=2)})
        | st.fixed_dictionaries({"not": parts})
    )

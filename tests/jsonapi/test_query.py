"""Parsing of query strings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry.jsonapi.errors import ApiErrors
from registry.jsonapi.pagination import Sizes
from registry.jsonapi.query import Query, Scope, parse
from registry.model.graph import Graph
from registry.resources import RESOURCES

GRAPH = Graph(RESOURCES)
PERSON, COMPUTER = GRAPH["person"], GRAPH["computer"]
PERSONS = Scope(PERSON, GRAPH, Sizes(50, 1000), many=True)

WORDS = st.sampled_from(
    [
        *["fields", "include", "sort", "filter", "page", "[", "]", "number", "size", "after", "-"],
        *["person", "computer", "owner", "computers", ".", ",", "id", "email", "1", "null", "eq"],
    ]
)
TEXT = st.lists(WORDS | st.text(max_size=3), max_size=8).map("".join)


def test_without_parameters_all_attributes_and_no_included_resources_are_requested() -> None:
    query = parse([], PERSONS)
    assert query == Query()
    assert query.attributes(PERSON) == {"first_name", "last_name", "full_name", "email"}


def test_include_paths_with_common_steps_form_one_tree() -> None:
    query = parse([("include", "computers.owner,computers")], PERSONS)
    assert query.include == {"computers": {"owner": {}}}


def test_fieldsets_are_separate_for_each_type() -> None:
    query = parse([("fields[person]", "email"), ("fields[computer]", "")], PERSONS)
    assert query.attributes(PERSON) == {"email"}
    assert query.attributes(COMPUTER) == frozenset()


@given(st.lists(st.tuples(TEXT, TEXT), max_size=4))
def test_any_query_string_is_parsed_or_rejected_with_the_parameter(
    parameters: list[tuple[str, str]],
) -> None:
    names = [name for name, _ in parameters]
    try:
        parse(parameters, PERSONS)
    except ApiErrors as error:
        rejection = error
    else:
        assert len(set(names)) == len(names)
        return
    assert rejection.status == 400
    assert all(error.parameter in {*names, "page[before]"} for error in rejection.errors)

"""Query strings, without a server."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry.jsonapi.errors import ApiErrors
from registry.jsonapi.query import Query, parse
from registry.resource import Graph
from registry.resources import RESOURCES

GRAPH = Graph(RESOURCES)
PERSON, COMPUTER = GRAPH["person"], GRAPH["computer"]

WORDS = st.sampled_from(
    ["fields", "[", "]", "person", "computer", "include", "owner", "computers", ".", ",", "id"]
)
TEXT = st.lists(WORDS | st.text(max_size=3), max_size=8).map("".join)


def test_no_parameters_ask_for_everything_and_include_nothing() -> None:
    query = parse([], PERSON, GRAPH)
    assert query == Query({}, None)
    assert query.attributes(PERSON) == {"first_name", "last_name", "full_name", "email"}


def test_paths_that_share_steps_become_one_tree() -> None:
    query = parse([("include", "computers.owner,computers")], PERSON, GRAPH)
    assert query.include == {"computers": {"owner": {}}}


def test_fields_are_kept_for_each_type_by_itself() -> None:
    query = parse([("fields[person]", "email"), ("fields[computer]", "")], COMPUTER, GRAPH)
    assert query.attributes(PERSON) == {"email"}
    assert query.attributes(COMPUTER) == frozenset()


@given(st.lists(st.tuples(TEXT, TEXT), max_size=4))
def test_any_query_string_is_understood_or_refused_by_parameter(
    parameters: list[tuple[str, str]],
) -> None:
    names = [name for name, _ in parameters]
    try:
        query = parse(parameters, PERSON, GRAPH)
    except ApiErrors as error:
        refused = error
    else:
        assert len(query.fields) + (query.include is not None) == len(parameters)
        return
    assert refused.status == 400
    assert all(error.parameter in names for error in refused.errors)

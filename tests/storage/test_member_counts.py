"""The stored numbers of members: those of a count of all links, whatever is written."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from registry.http.app_keys import GRAPH
from registry.jsonapi.changes import Verb, Write
from registry.jsonapi.error_objects import RequestError
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.resources.types_file import TypesFile
from registry.settings import Settings
from registry.storage import member_counts
from tests.conftest import Serve
from tests.storage.writing import MISSING, Registry, insert_fleet
from tests.support import Api, Database

FOLDERS = """
[folder]
collection = "folders"
name   = {type = "text", unique = true}
parent = {link = "folder", inverse = "children"}
keeper = {link = "person", inverse = "folders"}
"""

IDS = 4
"""Folders, persons and computers; a failed request names MISSING."""

ids = st.integers(1, IDS)
targets = st.none() | ids | st.just(MISSING)
members = st.lists(ids | st.just(MISSING), max_size=3, unique=True)
verbs = st.sampled_from(Verb)

WRITES: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(
    st.tuples(st.just("folder"), st.fixed_dictionaries({}, optional={"parent": targets})),
    st.tuples(st.just("folder"), st.fixed_dictionaries({"children": members, "verb": verbs})),
    st.tuples(st.just("folder"), st.fixed_dictionaries({"keeper": targets, "parent": targets})),
    st.tuples(st.just("computer"), st.fixed_dictionaries({"owner": targets})),
    st.tuples(st.just("person"), st.fixed_dictionaries({"computers": members, "verb": verbs})),
    st.tuples(st.just("person"), st.fixed_dictionaries({"folders": members, "verb": verbs})),
)

REQUEST = st.lists(
    st.tuples(st.sampled_from(["update", "update", "create", "delete"]), ids, WRITES),
    min_size=1,
    max_size=3,
)


@pytest.fixture
async def api(serve: Serve, settings: Settings) -> Api:
    """A registry that has links from a type to itself."""
    return await serve(settings=replace(settings, types=TypesFile(FOLDERS)))


def write_of(registry: Registry, kind: str, id_: int, sent: tuple[str, dict[str, Any]]) -> Write:
    type_name, values = sent
    if kind == "delete":
        return registry.delete((type_name, id_))
    if kind == "update":
        return registry.update((type_name, id_), **values)
    own: dict[str, Any] = {"computer": {"serial": "x"}, "person": {"first_name": "A"}}.get(
        type_name, {}
    )
    return registry.create(type_name, **own, **{**values, "verb": Verb.UPDATE})


async def counts(database: Database, graph: Graph) -> tuple[list[Any], list[Any]]:
    """Return all stored numbers of members, and those that the links have."""
    stored, counted = [], []
    for resource in graph.values():
        records = await database[resource.collection].find().sort("_id").to_list(None)
        for name, field in resource.count_fields.items():
            link = resource.relationships[name]
            linked = database[graph[link.target].collection].find()
            found = Counter([record.get(link.foreign_key) async for record in linked])
            stored += [(name, record["_id"], record.get(field, 0)) for record in records]
            counted += [(name, record["_id"], found[record["_id"]]) for record in records]
    return stored, counted


@given(groups=st.lists(st.lists(REQUEST, min_size=1, max_size=4), min_size=1, max_size=5))
@hypothesis_settings(max_examples=50)
async def test_numbers_are_those_of_the_links(
    api: Api, database: Database, groups: Sequence[Sequence[Sequence[Any]]]
) -> None:
    graph, registry = api.app[GRAPH], Registry(api)
    for resource in graph.values():
        await database[resource.collection].delete_many({})
    await insert_fleet(database, IDS, IDS)
    await database.folders.insert_many({"_id": id_, "version": 1} for id_ in range(1, IDS + 1))
    await database.counters.update_one(
        {"_id": "folder"}, {"$set": {"last": IDS, "count": IDS, "deleted": {}}}
    )
    for group in groups:
        requests = [[write_of(registry, *write) for write in request] for request in group]
        for outcome in await registry.write_group(requests):
            assert isinstance(outcome, list | RequestError), outcome
        stored, counted = await counts(database, graph)
        assert stored == counted


async def test_a_record_that_is_written_during_a_count_keeps_its_number(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await api.person()
    await api.computer("A", owner=ada)
    graph, find = Graph(RESOURCES), member_counts.wrong_counts
    for version, expected in (({"$literal": 1}, 1), ("$version", 7)):
        wrong = {"$set": {"version": version, "members": 7}}
        await database.persons.update_one({}, {"$set": {"_computers_count": 1}})
        monkeypatch.setattr(
            member_counts,
            "wrong_counts",
            lambda *of, wrong=wrong: [*find(*of)[:-1], wrong],
        )
        await member_counts.recount_members(database, graph, graph["person"], ["computers"])
        (person,) = await database.persons.find().to_list(None)
        assert person["_computers_count"] == expected

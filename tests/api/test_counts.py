"""`withCount`: the numbers of members of relationships, without the members.

`tests/consistency` compares documents with a model, `test_streaming.py` streams with pages, and
`test_csv.py` has tables.
"""

import pytest

from tests.conftest import Serve
from tests.storage.profiling import profiled
from tests.support import Api, Database, bulkheads, identifier, identity, new

COUNTED = {
    "links": {"self": "/persons/1/relationships/computers", "related": "/persons/1/computers"},
    "meta": {"count": 3},
}


@pytest.fixture
async def fleet(api: Api) -> Api:
    """A person with three computers, and one with none."""
    ada = await api.person("Ada", "King")
    await api.person("Bob", "King")
    for serial in ("A", "B", "C"):
        await api.computer(serial, ada)
    return api


@pytest.mark.parametrize(
    "path",
    [
        "/persons?withCount=computers",
        "/persons/1?withCount=computers&fields[person]=email",
        "/persons?withCount=computers&filter[computers.serial]=A&page[size]=1",
        "/computers?include=owner&withCount=owner.computers",
        "/computers/2/owner?withCount=computers",
        "/computers/2/relationships/owner?include=owner&withCount=owner.computers",
        "/assignments?include=owner&withCount=owner.computers",
    ],
)
async def test_a_count_has_no_linkage(fleet: Api, path: str) -> None:
    document = (await fleet.get(path)).document
    primary = document["data"] if isinstance(document["data"], list) else [document["data"]]
    resources = [*primary, *document.get("included", ())]
    (ada,) = [
        resource
        for resource in resources
        if identity(resource) == ("person", "1") and "links" in resource
    ]
    assert ada["relationships"] == {"computers": COUNTED}
    assert ("included" in document) == ("include=" in path)


async def test_include_adds_linkage_to_a_count_of_all_members(fleet: Api) -> None:
    path = "/persons/1?withCount=computers,assignments&include=computers&page[computers][size]=2"
    shown = (await fleet.get(path)).document["data"]["relationships"]
    assert len(shown["computers"]["data"]) == 2
    assert shown["computers"]["meta"] == shown["assignments"]["meta"] == {"count": 3}
    assert "data" not in shown["assignments"]


async def test_the_response_to_a_write_counts_what_it_has_changed(fleet: Api) -> None:
    links = {"computers": {"data": [identifier("computer", "1")]}}
    eve = new("person", links, first_name="Eve", last_name="King")
    created = (await fleet.send("POST", "/persons?withCount=computers", eve)).document["data"]
    assert created["relationships"]["computers"]["meta"] == {"count": 1}
    moved = new("computer", {"owner": {"data": identifier("person", "2")}}) | {"id": "1"}
    path = "/computers/1?include=owner&withCount=owner.computers,assignments"
    document = (await fleet.send("PATCH", path, moved)).document
    (bob,) = document["included"]
    assert bob["relationships"]["computers"]["meta"] == {"count": 1}
    assert document["data"]["relationships"]["assignments"]["meta"] == {"count": 3}


async def test_one_query_counts_the_members_of_a_page(fleet: Api, database: Database) -> None:
    async with profiled(database, "computers") as commands:
        await fleet.get("/persons?withCount=computers&page[size]=2")
    assert (len(commands), commands.examined) == (1, commands.total("keysExamined"))
    assert commands.total("docsExamined") == 0


@pytest.mark.usefixtures("fleet")
async def test_more_members_than_one_query_returns_are_counted(serve: Serve) -> None:
    api = await serve(members=2)
    for path in ("/persons?withCount=computers&page[size]=2", "/persons?withCount=computers"):
        counts = [
            person["relationships"]["computers"]["meta"]["count"]
            for person in (await api.get(path)).data
        ]
        assert counts == [3, 0], path


@pytest.mark.usefixtures("fleet")
async def test_many_members_are_counted_in_a_slot_of_the_heavy_requests(serve: Serve) -> None:
    api = await serve(members=2, heavy_requests=1, queue_length=0)
    path = "/persons/1?withCount=computers"
    async with bulkheads(api).heavy_requests:
        assert (await api.get(path)).status == 503
    assert (await api.get(path)).status == 200

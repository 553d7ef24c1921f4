"""`withCount`: the numbers of members of relationships, without the members.

`tests/consistency` compares documents with a model, `test_streaming.py` streams with pages,
`test_csv.py` has tables, and `tests/storage/test_member_counts.py` compares what is stored.
"""

import pytest

from tests.support import Api, CommandLog, identifier, identity, new

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


async def test_a_repetition_has_the_count_of_the_first_response(fleet: Api) -> None:
    path = "/computers?withCount=assignments"
    laptop = new("computer", {"owner": {"data": identifier("person", "1")}}, serial="D")
    first = await fleet.post(path, laptop, **{"Idempotency-Key": "a"})
    assert first.data["relationships"]["assignments"]["meta"] == {"count": 1}
    await fleet.patch("/computers/4", new("computer", {"owner": {"data": None}}))
    again = await fleet.post(path, laptop, **{"Idempotency-Key": "a"})
    assert again.document == first.document


async def test_a_dry_run_counts_what_it_would_have_changed(fleet: Api) -> None:
    links = {"computers": {"data": [identifier("computer", "1")]}}
    eve = new("person", links, first_name="Eve", last_name="King")
    path = "/persons?withCount=computers"
    response = await fleet.post(path, eve, Prefer="tx=rollback")
    assert response.data["relationships"]["computers"]["meta"] == {"count": 1}
    (ada, _) = (await fleet.get(path)).data
    assert ada["relationships"]["computers"]["meta"] == {"count": 3}


async def test_counts_take_no_other_query(fleet: Api, commands: CommandLog) -> None:
    for path in ("/persons?withCount=computers,assignments&page[size]=2", "/persons/1"):
        commands.take("all")
        await fleet.get(path)
        assert commands.names() == ["find"], path


async def test_a_change_of_a_count_changes_the_entity_tag(fleet: Api) -> None:
    for path, count in (("/persons/1", "computers"), ("/computers/1", "assignments")):
        url = f"{path}?withCount={count}&fields[person]=email&fields[computer]=serial"
        before = (await fleet.get(url)).headers["ETag"]
        assert (await fleet.get(url, **{"If-None-Match": before})).status == 304
        await fleet.set_computers("2", "1")
        assert (await fleet.get(url, **{"If-None-Match": before})).status == 200
        await fleet.set_computers("1", "1", "2", "3")

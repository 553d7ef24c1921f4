"""`fields[type]` shows only the listed attributes; type, id and links are always there."""

from __future__ import annotations

import asyncio

import pytest

from tests.support import Api


@pytest.fixture
async def fleet(api: Api) -> Api:
    """Grace owns two computers."""
    await api.person("Grace", "Hopper", email="grace@example.com")
    await api.computer("SN-1", owner="1")
    await api.computer("SN-2", owner="1")
    return api


@pytest.mark.parametrize("path", ["/persons", "/persons/1"])
async def test_only_the_listed_attributes_are_returned(fleet: Api, path: str) -> None:
    response = await fleet.get(f"{path}?fields[person]=full_name,email")
    person = response.data if isinstance(response.data, dict) else response.data[0]
    assert person == {
        "type": "person",
        "id": "1",
        "attributes": {"full_name": "Grace Hopper", "email": "grace@example.com"},
        "links": {"self": "/persons/1"},
    }


async def test_fields_restrict_included_resources_of_that_type(fleet: Api) -> None:
    response = await fleet.get("/computers?include=owner&fields[person]=full_name,email")
    assert response.data == [
        {
            "type": "computer",
            "id": number,
            "attributes": {"serial": f"SN-{number}"},
            "relationships": {
                "owner": {
                    "data": {"type": "person", "id": "1"},
                    "links": {
                        "self": f"/computers/{number}/relationships/owner",
                        "related": f"/computers/{number}/owner",
                    },
                }
            },
            "links": {"self": f"/computers/{number}"},
        }
        for number in ("1", "2")
    ]
    assert response.document["included"] == [
        {
            "type": "person",
            "id": "1",
            "attributes": {"full_name": "Grace Hopper", "email": "grace@example.com"},
            "links": {"self": "/persons/1"},
        }
    ]


async def test_all_invalid_parameters_are_reported_together(fleet: Api) -> None:
    response = await fleet.get("/persons?x=1&fields[person]=y&include=z&sort=name&x=2")
    assert response.status == 400
    assert response.errors == [
        (400, "x"),
        (400, "fields[person]"),
        (400, "x"),
        (400, "sort"),
        (400, "include"),
    ]


async def test_concurrent_requests_get_the_fields_each_of_them_asked_for(api: Api) -> None:
    count = 8
    for number in range(1, count + 1):
        await api.person(f"F{number}", f"L{number}", email=f"e{number}@example.com")
        await api.computer(f"SN-{number}", owner=str(number))
    values = {"first_name": "F{0}", "last_name": "L{0}", "full_name": "F{0} L{0}"}
    values["email"] = "e{0}@example.com"
    selections = 3 * [(), ("email",), ("full_name",), ("last_name",), ("first_name", "email")]
    first = await api.get("/persons?page[size]=1")
    cursor = first.document["links"]["next"].rpartition("=")[2]
    paths = [
        "/computers?include=owner&page[size]=50",
        f"/persons?page[size]=5&page[after]={cursor}",
    ]
    responses = await asyncio.gather(
        *(
            api.get(f"{path}&fields[person]={','.join(names)}")
            for names in selections
            for path in paths
        )
    )
    for names, including, page in zip(selections, responses[::2], responses[1::2], strict=True):
        resources = [*including.document["included"], *page.data]
        assert len(resources) == count + 5
        for resource in resources:
            expected = {name: values[name].format(resource["id"]) for name in names}
            assert resource["attributes"] == expected

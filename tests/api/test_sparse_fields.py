"""`fields[type]`: section 4.8 of the service description."""

from __future__ import annotations

import asyncio

import pytest

from tests.support import Api, linkage_of, to_many


@pytest.fixture
async def fleet(api: Api) -> Api:
    """Grace owns two computers."""
    await api.person("Grace", "Hopper", email="grace@example.com")
    await api.computer("SN-1", owner="1")
    await api.computer("SN-2", owner="1")
    return api


@pytest.mark.covers("1.5", "4.8.fields", "4.8.full_name")
@pytest.mark.parametrize("path", ["/persons", "/persons/1"])
async def test_only_the_listed_attributes_are_returned(fleet: Api, path: str) -> None:
    answer = await fleet.get(f"{path}?fields[person]=full_name,email")
    person = answer.data if isinstance(answer.data, dict) else answer.data[0]
    assert person == {
        "type": "person",
        "id": "1",
        "attributes": {"full_name": "Grace Hopper", "email": "grace@example.com"},
        "links": {"self": "/persons/1"},
    }


@pytest.mark.covers("4.8.full_name")
async def test_full_name_is_computed_without_the_fields_it_depends_on(fleet: Api) -> None:
    answer = await fleet.get("/persons/1?fields[person]=full_name")
    assert answer.data["attributes"] == {"full_name": "Grace Hopper"}


@pytest.mark.covers("4.8.fields", "4.8.combined")
async def test_fields_restrict_included_resources_of_that_type(fleet: Api) -> None:
    answer = await fleet.get("/computers?include=owner&fields[person]=full_name,email")
    assert answer.data == [
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
    assert answer.document["included"] == [
        {
            "type": "person",
            "id": "1",
            "attributes": {"full_name": "Grace Hopper", "email": "grace@example.com"},
            "links": {"self": "/persons/1"},
        }
    ]


@pytest.mark.covers("d.fields_and_include")
async def test_fields_do_not_hide_an_included_relationship(fleet: Api) -> None:
    answer = await fleet.get("/persons?fields[person]=email&include=computers")
    (person,) = answer.data
    assert person["attributes"] == {"email": "grace@example.com"}
    assert linkage_of(person) == {"computers": to_many("1", "2")}
    assert answer.included == [("computer", "1"), ("computer", "2")]


@pytest.mark.covers("d.fields_and_include")
async def test_a_relationship_named_in_fields_is_not_shown_without_include(fleet: Api) -> None:
    answer = await fleet.get("/persons/1?fields[person]=computers,email")
    assert answer.data["attributes"] == {"email": "grace@example.com"}
    assert "relationships" not in answer.data


@pytest.mark.covers("d.names_in_fields", "2.4")
@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ("id", set()),
        ("computers", set()),
        ("id,first_name,last_name,full_name,email,computers", None),
        ("email,email", {"email"}),
        ("", set()),
    ],
)
async def test_fields_may_name_attributes_relationships_and_id(
    fleet: Api, names: str, shown: set[str] | None
) -> None:
    answer = await fleet.get(f"/persons/1?fields[person]={names}")
    everything = {"first_name", "last_name", "full_name", "email"}
    assert answer.data["attributes"].keys() == (everything if shown is None else shown)
    assert answer.data["links"] == {"self": "/persons/1"}


@pytest.mark.covers("d.names_in_fields", "2.4")
@pytest.mark.parametrize("names", ["id", "owner", "person", "id,person,owner"])
async def test_person_is_an_alias_of_owner_in_the_fields_of_a_computer(
    fleet: Api, names: str
) -> None:
    answer = await fleet.get(f"/computers/1?fields[computer]={names}&include=owner")
    assert answer.data["attributes"] == {}
    assert linkage_of(answer.data) == {"owner": {"data": {"type": "person", "id": "1"}}}


@pytest.mark.covers("d.bad_parameters")
@pytest.mark.parametrize(
    "parameter",
    [
        "fields",
        "fields[]",
        "fields[persons]",
        "fields[Person]",
        "fields[monitor]",
        "fields[person][x]",
        "fields[[person]]",
        "fields[$where]",
        "Fields[person]",
    ],
)
async def test_fields_of_an_unknown_type_are_refused(fleet: Api, parameter: str) -> None:
    for path in ("/persons", "/persons/1", "/computers", "/computers/1"):
        answer = await fleet.get(f"{path}?{parameter}=email")
        assert (answer.status, answer.errors) == (400, [(400, parameter)])


@pytest.mark.covers("d.bad_parameters")
@pytest.mark.parametrize(
    "names", ["password", "owner", "nothing", "email,", ",", "email, full_name", "_id", "$email"]
)
async def test_unknown_fields_are_refused(fleet: Api, names: str) -> None:
    for path in ("/persons", "/computers/1"):
        answer = await fleet.get(f"{path}?fields[person]={names}")
        assert (answer.status, answer.errors) == (400, [(400, "fields[person]")])


@pytest.mark.covers("d.bad_parameters")
async def test_all_invalid_parameters_are_reported_together(fleet: Api) -> None:
    answer = await fleet.get("/persons?x=1&fields[person]=y&include=z&sort=name&x=2")
    assert answer.status == 400
    assert answer.errors == [
        (400, "x"),
        (400, "fields[person]"),
        (400, "x"),
        (400, "sort"),
        (400, "include"),
    ]


@pytest.mark.covers("d.bad_parameters")
async def test_a_repeated_parameter_is_refused(fleet: Api) -> None:
    answer = await fleet.get("/persons?fields[person]=email&fields[person]=full_name")
    assert (answer.status, answer.errors) == (400, [(400, "fields[person]")])


@pytest.mark.covers("4.8.fields", "4.8.combined")
async def test_concurrent_requests_get_the_fields_each_of_them_asked_for(api: Api) -> None:
    count = 8
    for number in range(1, count + 1):
        await api.person(f"F{number}", f"L{number}", email=f"e{number}@example.com")
        await api.computer(f"SN-{number}", owner=str(number))
    values = {"first_name": "F{0}", "last_name": "L{0}", "full_name": "F{0} L{0}"}
    values["email"] = "e{0}@example.com"
    choices = 3 * [(), ("email",), ("full_name",), ("last_name",), ("first_name", "email")]
    first = await api.get("/persons?page[size]=1")
    cursor = first.document["links"]["next"].rpartition("=")[2]
    paths = [
        "/computers?include=owner&page[size]=50",
        f"/persons?page[size]=5&page[after]={cursor}",
    ]
    answers = await asyncio.gather(
        *(
            api.get(f"{path}&fields[person]={','.join(names)}")
            for names in choices
            for path in paths
        )
    )
    for names, including, page in zip(choices, answers[::2], answers[1::2], strict=True):
        shown = [*including.document["included"], *page.data]
        assert len(shown) == count + 5
        for one in shown:
            wanted = {name: values[name].format(one["id"]) for name in names}
            assert one["attributes"] == wanted

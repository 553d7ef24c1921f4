"""Query parameters that a route refuses, each with its name.

tests/jsonapi tests the syntax of each parameter; these tests show what each route allows.
"""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from registry.jsonapi.cursors import END, Cursors
from registry.jsonapi.sorting import BY_ID
from tests.support import Api

COMPUTERS, OWNER = "/persons/1/computers", "/computers/1/owner"
MEMBERS, LINKAGE = "/persons/1/relationships/computers", "/computers/1/relationships/owner"
CURSOR = Cursors("person", BY_ID).encode(END)
PAGED = "/persons?include=computers"

REFUSED = [
    *(f"/persons?filter[{name}]=1" for name in ("password", "version", "_id", "$where", "id][$gt")),
    *(f"/persons?filter[{name}]=x" for name in ("last_name][regex", "id", "id][prefix", "")),
    *(f"/persons?filter[{name}]=1" for name in ("computers.owner", "computers.serial][has")),
    *(f"/persons?filter[{name}]=x" for name in ("created_at", "updated_by][contains")),
    *(f"/computers?filter[owner.{name}]=x" for name in ("nickname", "password", "computers")),
    *(f"/persons?filter={value}" for value in ("", "{}", "[1]", "[" * 1000, '[{"$or":[]}]')),
    '/persons?filter=[{"name":"last_name","op":"eq","val":{"$gt":""}}]',
    *(f"/persons?sort={name}" for name in ("password", "$natural", "computers", "%00", "%ff")),
    *(f"/persons?sort={names}" for names in ("last_name,,id", "last_name,-last_name", "id,id")),
    *(
        f"/persons?sort={name}"
        for name in ("_id", ".", "--id", "%2Bid", "%20id", "ID", "-", "owner")
    ),
    *(f"/persons?sort={name}" for name in ("first_name.", "last_name,", "computers.serial")),
    *(f"/computers?sort=owner.{name}" for name in ("password", "", "computers.serial")),
    *(f"/persons?page[size]={value}" for value in ("0", "-1", "", "x", "%00")),
    *(f"/persons?page[number]={value}" for value in ("0", "01", "9" * 40)),
    *(f"/persons?page[after]={value}" for value in ("", "x", "%ff", "W10")),
    *(f"/persons?page[{name}]=1" for name in ("", "offset", "size][x", "Size", "before")),
    f"/persons?page[after]={CURSOR}&page[number]=1",
    "/persons?page[number]=1&page[total]=1",
    "/persons?page=1",
    "/persons?page[computers][size]=1",
    *(f"{PAGED}&page[{path}][size]=1" for path in ("owner", "computer", "computers.", "")),
    *(f"{PAGED}&page[computers]{more}" for more in ("[number]=1", "=1", "[size]=0", "[size]=x")),
    "/persons?include=computers.owner&page[computers.owner][size]=1",
    *(f"/computers?include=owner&page[{path}][size]=1" for path in ("owner", "owner.computers")),
    *(f"/persons?include={path}" for path in ("owner", "email", "person", " computers", "$lookup")),
    *(f"/persons?include={path}" for path in ("computers,", ",", ".", "computers.", ".computers")),
    *(f"/persons?include=computers{path}" for path in ("..owner", ".serial", ".owner" * 2)),
    *(f"/computers/1?include={path}" for path in ("person", "computers", "OWNER")),
    *(
        f"/persons/1?fields[{name}]=email"
        for name in ("", "persons", "Person", "monitor", "$where")
    ),
    *(f"/computers?{name}=email" for name in ("fields", "fields[person][x]", "Fields[person]")),
    *(f"/computers?fields[person]={name}" for name in ("password", "owner", "_id", "$email")),
    *(f"/persons?fields[person]={names}" for names in ("email,", ",", "email, full_name")),
    "/persons/1?sort=id",
    "/persons/1?page[size]=1",
    *(f"{COMPUTERS}?include={path}" for path in ("computers", "owner.cars")),
    *(f"{COMPUTERS}?{query}" for query in ("sort=last_name", "filter[last_name]=x", "x=1")),
    f"{COMPUTERS}?include=owner&page[computers][size]=1",
    *(f"{OWNER}?{query}" for query in ("include=owner", "sort=last_name", "filter[id]=1")),
    *(f"{OWNER}?{query}" for query in ("page[number]=1", "fields[person]=password")),
    *(f"{MEMBERS}?include={path}" for path in ("owner", "computers.cars", "serial")),
    f"{MEMBERS}?include=computers.owner.computers.owner",
    f"{MEMBERS}?include=computers&page[computers][size]=1",
    *(f"{MEMBERS}?{query}" for query in ("sort=last_name", "filter[password]=x", "page[size]=0")),
    *(f"{MEMBERS}?{query}" for query in ("fields[cars]=x", "page[after]=x", "nonsense=1")),
    *(f"{LINKAGE}?{query}" for query in ("include=computers", "sort=last_name")),
    *(f"{LINKAGE}?{query}" for query in ("filter[id]=1", "page[size]=1")),
]
"""The last parameter of each is refused."""


@pytest.fixture
async def fleet(api: Api) -> Api:
    """A person with a computer."""
    await api.computer(owner=await api.person())
    return api


async def test_each_invalid_parameter_is_named(fleet: Api) -> None:
    for url in REFUSED:
        parameter = unquote(url.partition("?")[2].rpartition("&")[2].partition("=")[0])
        response = await fleet.get(url)
        assert (response.status, response.errors) == (400, [(400, parameter)]), url

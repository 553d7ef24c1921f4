"""Collections as CSV: columns, content negotiation, and the rest of HTTP.

`test_streaming.py` compares them with JSON:API, `tests/commands` imports them again.
"""

import pytest

from tests.conftest import Header
from tests.support import MEDIA_TYPE, VARY, Api, Raw, add, new

CSV = "text/csv"
OWNER = "owner.id,owner.first_name,owner.last_name,owner.full_name,owner.email"
PERSON = "Ada,King,Ada King,ada@x.org"


@pytest.fixture
async def fleet(api: Api) -> Api:
    """A person with two computers, and a third computer."""
    ada = await api.person("Ada", "King", email="ada@x.org")
    for serial, owner in (("B", ada), ("A", ada), ("C", None)):
        await api.computer(serial, owner)
    return api


async def fetch(api: Api, path: str, method: str = "GET", **headers: str) -> Raw:
    return await api.fetch(path, method, **{"Accept": CSV, **headers})


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("/computers", ["id,serial", "1,B", "2,A", "3,C"]),
        ("/computers?filter[serial]=X&include=owner", [f"id,serial,{OWNER}"]),
        (
            "/computers?include=owner&sort=owner.email,-serial",
            [f"id,serial,{OWNER}", "3,C,,,,,", f"1,B,1,{PERSON}", f"2,A,1,{PERSON}"],
        ),
        (
            "/computers?fields[computer]=serial,person,id&filter[owner.last_name]=King&sort=serial",
            ["serial,owner.id,id", "A,1,2", "B,1,1"],
        ),
        (
            "/computers?fields[computer]=owner,serial&include=owner&fields[person]=email,computers",
            ["owner.email,serial", "ada@x.org,B", "ada@x.org,A", ",C"],
        ),
        (
            "/computers?include=owner&fields[person]=&fields[computer]=",
            ["owner.id", "1", "1", '""'],
        ),
        ("/computers?fields[computer]=", ["id", "1", "2", "3"]),
        ("/computers?page[size]=2&sort=serial", ["id,serial", "2,A", "1,B"]),
        ("/persons/1/computers?include=", ["id,serial", "1,B", "2,A"]),
        (
            "/persons?fields[person]=email&withCount=computers,assignments",
            ["email,computers.count,assignments.count", "ada@x.org,2,2"],
        ),
        (
            "/computers?include=owner&fields[person]=email&withCount=assignments,owner.computers",
            [
                "id,serial,owner.email,assignments.count,owner.computers.count",
                *("1,B,ada@x.org,1,2", "2,A,ada@x.org,1,2", "3,C,,0,"),
            ],
        ),
        (
            "/assignments?fields[assignment]=serial&include=owner&fields[person]=id"
            "&withCount=owner.computers",
            ["serial,owner.id,owner.computers.count", ",1,2", ",1,2"],
        ),
        ("/persons", ["id,first_name,last_name,full_name,email", f"1,{PERSON}"]),
    ],
)
async def test_a_table_has_the_columns_and_rows_of_the_query(
    fleet: Api, path: str, lines: list[str]
) -> None:
    response = await fetch(fleet, path)
    headers, text = response.headers, "".join(f"{line}\r\n" for line in lines)
    assert (response.status, response.text) == (200, f"\ufeff{text}")
    assert headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
    name = path.partition("?")[0].rpartition("/")[2]
    assert headers["Content-Disposition"] == f'attachment; filename="{name}.csv"'
    assert (headers["Vary"], "Registry-Position" in headers) == (VARY, True)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("", "owner_name,computer.id,owner.id"),
        ("?include=owner&fields[person]=email,id", "owner_name,computer.id,owner.email,owner.id"),
    ],
)
async def test_assignments_keep_the_ids_of_deleted_resources(
    fleet: Api, query: str, first: str
) -> None:
    await fleet.request("DELETE", "/persons/1")
    header, *rows = (await fetch(fleet, f"/assignments{query}")).text.splitlines()
    assert header == f"\ufeffid,since,until,serial,{first}"
    email = "," * ("email" in query)
    ends = [",".join(row.split(",")[3:]) for row in rows]
    assert ends == [f"B,Ada King,1,{email}1", f"A,Ada King,2,{email}1"]


async def test_fields_without_a_column_are_refused(api: Api) -> None:
    for path, name in (
        ("/persons?include=computers", "computers"),
        ("/computers?include=owner.computers", "owner.computers"),
        ("/persons?fields[person]=computers,email", "computers"),
        ("/persons?fields[person]=phone", "phone"),
    ):
        response = await api.get(path, Accept=CSV)
        assert response.errors == [(400, path.partition("?")[2].partition("=")[0])]
        assert f"`{name}`" in response.document["errors"][0]["detail"]


async def test_lists_are_sent_as_csv_if_the_client_prefers_it(fleet: Api) -> None:
    for accept, path, expected in (
        ("text/csv;q=0.5", "/computers", CSV),
        ("TEXT/CSV; charset=utf-8, */*", "/computers?page[size]=1", CSV),
        (f"{MEDIA_TYPE};q=0.8, text/csv;q=0.9", "/persons/1/computers", CSV),
        (f"{MEDIA_TYPE}, text/csv", "/computers", MEDIA_TYPE),
        ("text/csv;q=0.5, */*", "/computers", MEDIA_TYPE),
        *((CSV, path, MEDIA_TYPE) for path in ("/computers/1", "/computers/1/owner")),
        (CSV, "/persons/7/computers", MEDIA_TYPE),
        (CSV, "/persons/1/relationships/computers", MEDIA_TYPE),
    ):
        response = await fetch(fleet, path, Accept=accept)
        assert response.headers["Content-Type"].partition(";")[0] == expected, (accept, path)


async def test_a_table_needs_the_scopes_of_what_it_shows(guarded: Api, header: Header) -> None:
    sent = {"Accept": CSV, **await header("computers:read")}
    assert (await fetch(guarded, "/computers", **sent)).status == 200
    for query in ("include=owner", "fields[computer]=id,owner", "sort=owner.email"):
        response = await guarded.get(f"/computers?{query}", **sent)
        assert response.errors == [(403, query.partition("=")[0])]


@pytest.mark.parametrize("path", ["/computers", "/computers?page[size]=500"])
async def test_csv_supports_preconditions_head_and_compression(api: Api, path: str) -> None:
    added = add(new("computer", serial="S" * 20))
    await api.operate(*[added] * 100)
    plain = await fetch(api, path, Accept_Encoding="identity")
    assert (plain.status, plain.headers.get("Content-Encoding")) == (200, None)
    compressed = await fetch(api, path, Accept_Encoding="gzip")
    assert compressed.body != plain.body
    assert compressed.text == plain.text
    head, names = await fetch(api, path, "HEAD", Accept_Encoding="gzip"), compressed.headers.keys()
    assert (head.status, head.body) == (200, b"")
    assert head.headers.keys() == names - {"Transfer-Encoding"}
    tag = compressed.headers.get("ETag", "*")
    assert (tag == "*") == (path == "/computers")
    unmodified = await fetch(api, path, If_None_Match=tag, Accept_Encoding="gzip")
    assert (unmodified.status, unmodified.body) == (304, b"")
    assert "Content-Disposition" not in unmodified.headers
    assert (await fetch(api, path, If_Match='"x"')).status == 412
    json_tag = (await api.get("/computers?page[size]=500")).headers["ETag"]
    assert (await fetch(api, path, If_None_Match=json_tag)).status == 200

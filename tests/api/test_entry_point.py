"""The root of the service, and paths with a slash at their end."""

import re
from dataclasses import replace
from ipaddress import ip_network
from itertools import product
from pathlib import Path
from urllib.parse import urljoin

import orjson

import registry.web
from registry.resources.types_file import read_types
from registry.settings import Settings
from tests.conftest import Header, Serve
from tests.support import MEDIA_TYPE, PERSON, Api

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

PAGE = Path(registry.web.__file__).parent / "page"

FLEET = Path(registry.web.__file__).parents[2] / "docs" / "fleet.toml"

LATER = {
    *("bulk.js", "card.js", "editor.js", "form.js", "import.js", "operations.js", "timeline.js"),
    "shapes.js",
}
"""The modules of the page that are loaded when they are needed, and that without code."""

OTHERS = ("changes", "openapi", "swagger_ui")
"""The members of `meta` with other URLs that can be read."""


async def test_the_root_links_to_everything(api: Api) -> None:
    for accept in (
        *("*/*", MEDIA_TYPE, "application/json", f"text/html;q=0.9, {MEDIA_TYPE}", "text/html;q=0"),
    ):
        document = (await api.get("/", Accept=accept)).document
        # JSON:API 1.0 requires one of `data`, `errors` and `meta`, and allows no other links here.
        assert document.keys() == {"jsonapi", "links", "meta"}
        assert document["links"] == {"self": f"{api.origin}/"}
        meta = document["meta"]
        assert meta["collections"] == {
            name: f"{api.origin}/{name}s" for name in ("person", "computer", "assignment")
        }
        assert meta["operations"] == f"{api.origin}/operations"
    for url in (*meta["collections"].values(), *map(meta.get, OTHERS)):
        assert (await api.fetch(url.removeprefix(api.origin))).status == 200, url


async def test_the_root_describes_the_types(serve: Serve, settings: Settings) -> None:
    declared = read_types(str(FLEET))
    fleet = replace(settings, types=declared, unique=("computer.serial",), revisions=30)
    api = await serve(settings=fleet)
    response = await api.get("/")
    assert len(orjson.dumps(response.document)) <= 40_000
    described = {type_["type"]: type_ for type_ in response.document["meta"]["types"]}
    assert [type_["path"] for type_ in described.values()] == [
        *("/persons", "/computers", "/phones"),
        *("/assignments", "/phone_owner_periods", "/revisions"),
    ]
    computer = described["computer"]
    serial = {"type": "string", "minLength": 1, "maxLength": 255, "example": "SN-0001"}
    assert computer["attributes"]["serial"] == serial | {"required": True, "unique": True}
    assert computer["attributes"]["status"]["enum"] == ["ready", "repair", "retired"]
    owner = {"types": ["person"], "many": False, "inverse": "computers", "writable": True}
    assert computer["relationships"]["owner"] == owner
    assert not described["assignment"]["writable"]
    operators = response.document["meta"]["operators"]
    assert operators["lt"] == {
        "label": "is less than",
        "time_label": "is before",
        "operand": "value",
    }
    subject = {"types": ["person", "computer", "phone"], "many": False, "inverse": "revisions"}
    assert described["revision"]["relationships"] == {"resource": subject | {"writable": False}}
    for type_ in described.values():
        for name in type_["sort"]:
            assert (await api.get(f"{type_['path']}?sort={name}")).status == 200, name
        for field in type_["filters"]:
            assert {*field["operators"]} <= operators.keys() | {"null"}
            # A value may be invalid, but not a field or an operator.
            failed = await api.get(
                f"{type_['path']}?filter[{field['name']}][{field['operators'][-1]}]=true"
            )
            for error in (failed.document or {}).get("errors", []):
                assert not re.search("available: |supported: ", error["detail"]), error


async def test_the_root_shows_browsers_the_page(api: Api) -> None:
    for accept, method in product((BROWSER, "text/html", "TEXT/HTML;q=0.5"), ("GET", "HEAD")):
        page = await api.fetch("/?utm_source=x", method, Accept=accept)
        assert (page.status, bool(page.body)) == (200, method == "GET")
        assert page.headers["Content-Type"] == "text/html"
        assert "Accept" in page.headers["Vary"]
        assert "connect-src 'self'" in page.headers["Content-Security-Policy"]
        known = {"Accept": accept, "If-None-Match": page.headers["Etag"]}
        assert (await api.fetch("/", method, **known)).status == 304


async def test_the_page_needs_no_other_host_and_little_before_its_first_table(api: Api) -> None:
    """A reverse proxy may serve it below a prefix, so all its links are relative."""
    page = await api.fetch("/", Accept=BROWSER)
    names = {file.name for file in PAGE.iterdir()}
    linked = re.findall(r'(?:href|src)="([^"#]+)"', page.text)
    assert {f"api/page/{name}" for name in names - {"index.html", *LATER}} == {
        link for link in linked if not link.startswith("api/swagger/")
    }
    size = 0
    for name in names:
        file = await api.fetch(f"/api/page/{name}", Accept_Encoding="gzip")
        assert file.status == 200
        size += int(file.headers["Content-Length"]) if name not in LATER else 0
        hosts = set(re.findall(r"https?://([^/\"]+)", file.text))
        assert hosts <= {"jsonapi.org", "www.w3.org"}  # of names, which nobody visits
    assert size <= 44_000


async def test_the_root_tells_what_a_token_allows(guarded: Api, header: Header) -> None:
    for scope, read, write in (
        ("read", ["person", "computer", "assignment"], []),
        ("computers:write", ["computer"], ["computer"]),
    ):
        sent = await header(scope)
        access = (await guarded.get("/", **sent)).document["meta"]["access"]
        assert (access["read"], access["write"]) == (read, write)
    assert (await guarded.get("/", Authorization="Bearer x")).errors == [(401, "")]
    for path, headers, status in (
        *(("/", headers, 200) for headers in ({}, {"Accept": BROWSER})),
        *((f"/persons{id_}/", {}, 401) for id_ in ("", "/1", "/x")),
        *((f"/persons{id_}/", sent, 308) for id_ in ("", "/1", "/x")),
    ):
        assert (await guarded.fetch(path, **headers)).status == status, path


async def test_the_root_negotiates_and_rejects_parameters_as_other_paths_do(api: Api) -> None:
    assert (await api.get("/", Accept=f"{MEDIA_TYPE}; charset=utf-8")).status == 406
    response = await api.get("/?include=persons&x=1")
    assert response.errors == [(400, "include"), (400, "x")]


async def test_a_trailing_slash_is_redirected_for_every_method(
    serve: Serve, settings: Settings
) -> None:
    api = await serve(settings=replace(settings, trusted_proxy=(ip_network("127.0.0.1"),)))
    query = "?page%5Bsize%5D=1&filter[a]=b/c/&x=%2F%25"
    for path, method in product(
        (
            *("/persons", "/persons/1", "/persons/x", "/persons/1/computers", "/operations"),
            *("/persons/1/relationships/computers", "/computers/9/owner"),
        ),
        ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"),
    ):
        status, head, body = await api.exchange(
            f"{method} {path}/{query} HTTP/1.1\r\nHost: h\r\nX-Forwarded-Host: fleet.example\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        assert (status, body) == (308, b"")
        (location,) = locations(head)
        for base in ("http://h", "https://proxy.example/fleet"):
            target = urljoin(f"{base}{path}/{query}", location)
            assert target == base + path + query.replace("[", "%5B").replace("]", "%5D")
    created = await api.post("/persons/", PERSON)  # a client that follows it repeats its request
    assert (created.status, created.id) == (201, "1")


def locations(head: bytes) -> list[str]:
    """Return the values of `Location` in the head of a response."""
    lines = [line.partition(b": ") for line in head.split(b"\r\n")]
    return [value.decode("ascii") for name, _, value in lines if name.lower() == b"location"]


async def test_a_redirect_never_leads_to_another_host(api: Api) -> None:
    for id_ in (
        *("%2F%2Fattacker.example", "https:%2F%2Fattacker.example", "\\\\attacker.example"),
        *("%0D%0Ax:y", "\xff"),
    ):
        target = f"/persons/{id_}/"
        for host in ("", "http://h"):
            request = f"GET {host}{target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
            status, head, _ = await api.exchange(request.encode("latin-1"))
            assert status in {308, 400}
            for location in locations(head):
                assert urljoin(f"http://h{target}", location).startswith("http://h/persons/")
                assert not location.startswith("http")
            assert b"\r\nx:y" not in head

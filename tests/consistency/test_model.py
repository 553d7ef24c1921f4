"""The same requests to the service and to a model of it: every response is the model's."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from multidict import CIMultiDict, CIMultiDictProxy

from registry.protocol import (
    EXTENSION,
    MERGE,
    OPERATIONS,
    PREFERENCE_APPLIED,
    RESULTS,
    ROLL_BACK,
    media_type,
)
from tests.consistency import strategies
from tests.consistency.model import (
    ATTRIBUTES,
    RELATIONSHIPS,
    SCALE,
    TARGETS,
    Identity,
    Model,
    Query,
    body_of,
    linkage_to,
    resource_path,
)
from tests.support import MEDIA_TYPE, Response, check_document
from tests.system.conftest import Start

EXAMPLES = [3, pytest.param(10, marks=pytest.mark.slow)]
"""The number of sequences of steps."""

QUERIES = 4
"""The number of queries for a collection in one step."""


OPTIONS = ("--unique", "person.email", "--revisions", "30")
"""Those of the service."""

CURSORS = {"prev": "before", "next": "after"}
"""The link of a page -> the cursor in it."""


def cursor(link: str | None, name: str) -> str | None:
    """Return the cursor in the link of a page, None without one."""
    values = parse_qs(urlsplit(link or "").query).get(f"page[{name}]")
    return values[0] if values else None


def told_by(revision: Any) -> tuple[Identity, str, Any, Any]:
    """Return which resource a revision belongs to, what was done, and the values it shows."""
    of, attributes = revision["relationships"]["resource"]["data"], revision["attributes"]
    told = attributes["action"], attributes["before"], attributes["after"]
    return ((of["type"], int(of["id"])), *told)


class Client:
    """Sends one request after another, URLs exactly as they are written."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self._connection = HTTPConnection(origin.removeprefix("http://"), timeout=60)

    def request(
        self, method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        content = None if body is None else json.dumps(body)
        sent = {"Content-Type": MEDIA_TYPE} | dict(headers or {})
        self._connection.request(method, url, content, sent)
        response = self._connection.getresponse()
        received = response.read()
        document = json.loads(received) if received else None
        if document is not None and RESULTS not in document:
            check_document(document)
        headers = CIMultiDictProxy(CIMultiDict(response.getheaders()))
        return Response(response.status, headers, document)

    def close(self) -> None:
        self._connection.close()


class Comparison(RuleBasedStateMachine):
    """Steps that send a request to the service and apply it to the model.

    tags: the entity tags that each resource had, with the versions they belong to. times: when each
    resource was created and updated, and the attributes it then had. last_revision: the id of the
    newest one that was compared.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        self.model = Model()
        self.tags: dict[Identity, dict[str, int]] = defaultdict(dict)
        self.times: dict[Identity, tuple[Mapping[str, str], Mapping[str, Any]]] = {}
        self._delete_all()
        self.last_revision = 0
        self._new_revisions()

    def _delete_all(self) -> None:
        """Delete what the steps before, which may have failed, have left."""
        for type_name in RELATIONSHIPS:
            for resource in self.client.request("GET", f"/{type_name}s").document["data"]:
                path = resource["links"]["self"]
                assert self.client.request("DELETE", path).status == 204

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        for type_name in ("person",) * 4 + ("computer",) * 6:
            self.create(data, type_name)
            self.each_change_has_a_revision()

    # Writes

    @rule(data=st.data(), type_name=strategies.types)
    def create(self, data: st.DataObject, type_name: str) -> None:
        prefer = data.draw(st.lists(st.sampled_from([MERGE, ROLL_BACK]), unique=True))
        merges = MERGE in prefer
        attributes = data.draw(strategies.attributes(type_name, creating=not merges))
        linkage = data.draw(st.none() | self._targets(type_name))
        query = data.draw(strategies.resource_queries(type_name))
        body, headers = body_of((type_name, 7), attributes, linkage), {"Prefer": ", ".join(prefer)}
        response = self.client.request("POST", query.url(f"/{type_name}s"), body, headers)
        stored = self.model.holder(attributes)
        if errors := self._expected_errors(attributes, query, prefer):
            assert response.errors == errors
            return
        assert response.status == (200 if stored else 201), response.document
        assert sorted(response.headers.get(PREFERENCE_APPLIED, "").split(", ")) == sorted(
            prefer or [""]
        )
        identity = stored or (type_name, int(response.document["data"]["id"]))
        before, self.model = self.model, self.model.copy()
        if stored:
            self.model.update(identity, attributes)
            assert "Location" not in response.headers
        else:
            self.model.create(identity, attributes)
            assert response.headers["Location"] == resource_path(identity)
        if linkage is not None:
            self.model.replace(identity, linkage)
        writable = [name for name in ATTRIBUTES[type_name] if name != "full_name"]
        shown = replace(query, fields={type_name: tuple(writable), **query.fields})
        self._check_written(response, identity, shown, is_linked=linkage is not None)
        if ROLL_BACK in prefer:
            self.model = before
        elif stored:
            self._check_tag(identity, response.headers["ETag"])
            self._read_resource(identity, Query())

    @rule(data=st.data())
    def merge_several(self, data: st.DataObject) -> None:
        """Rows of one request, each of which sees what the preceding ones have left."""
        attributes = strategies.attributes("person", creating=True)
        row = st.tuples(attributes, strategies.emails, st.none() | self._targets("person"))
        rows = [
            ({**values, "email": email}, linkage)
            for values, email, linkage in data.draw(st.lists(row, min_size=1, max_size=4))
        ]
        operations = [{"op": "add", **body_of(("person", 7), *value)} for value in rows]
        headers = {"Prefer": MERGE, "Content-Type": media_type(EXTENSION)}
        response = self.client.request("POST", "/operations", {OPERATIONS: operations}, headers)
        for (values, linkage), result in zip(rows, response.document[RESULTS], strict=True):
            identity, stored = ("person", int(result["data"]["id"])), self.model.holder(values)
            versions = dict(self.model.versions)
            if stored:
                assert identity == stored
                self.model.update(identity, values)
            else:
                self.model.create(identity, values)
            if linkage is not None:
                self.model.replace(identity, linkage)
            changed = "updated" if versions != self.model.versions else "unchanged"
            assert result["meta"] == {"effect": changed if stored else "created"}
            assert result["data"]["attributes"] == self.model.resources[identity]
        for result in response.document[RESULTS]:
            self._read_resource(("person", int(result["data"]["id"])), Query())

    def _expected_errors(
        self, attributes: Mapping[str, Any], query: Query, prefer: Sequence[str]
    ) -> list[tuple[int, str]]:
        """Return the errors of a creation, which may be an update or a dry run instead."""
        at, stored = "/data/attributes", self.model.holder(attributes)
        if MERGE in prefer and "email" not in attributes:  # the only unique attribute
            return [(400, at)]
        if ROLL_BACK in prefer and query.include is not None:
            return [(400, "include")]
        if MERGE not in prefer:
            return [(409, f"{at}/email")] if stored else []
        names = () if stored else ATTRIBUTES["person"][:2]
        return [(422, f"{at}/{name}") for name in names if name not in attributes]

    @rule(data=st.data(), type_name=strategies.types)
    def update(self, data: st.DataObject, type_name: str) -> None:
        identity = self._existing(data, type_name)
        if identity is None:
            return
        attributes = data.draw(strategies.attributes(type_name, creating=False))
        linkage = data.draw(st.none() | self._targets(type_name))
        query = data.draw(strategies.resource_queries(type_name))
        condition, is_current = self._condition(data, identity)
        body, url = body_of(identity, attributes, linkage), query.url(resource_path(identity))
        response = self.client.request("PATCH", url, body, condition)
        if not is_current:
            assert response.errors == [(412, "")]
            return
        if self.model.holder(attributes) not in {None, identity}:
            assert response.errors == [(409, "/data/attributes/email")]
            return
        assert response.status == 200, response.document
        self.model.update(identity, attributes)
        if linkage is not None:
            self.model.replace(identity, linkage)
        self._check_written(response, identity, query, is_linked=linkage is not None)
        self._read_resource(identity, Query())

    @rule(data=st.data(), type_name=strategies.types)
    def change_relationship(self, data: st.DataObject, type_name: str) -> None:
        identity = self._existing(data, type_name)
        if identity is None:
            return
        changes: dict[str, Callable[[Identity, Sequence[int]], None]] = {
            "PATCH": self.model.replace
        }
        if type_name == "person":
            changes |= {"POST": self.model.add, "DELETE": self.model.remove}
        method = data.draw(st.sampled_from(list(changes)))
        targets = data.draw(self._targets(type_name))
        condition, is_current = self._condition(data, identity)
        url = f"{resource_path(identity)}/relationships/{RELATIONSHIPS[type_name]}"
        body = linkage_to(type_name, targets)
        response = self.client.request(method, url, body, condition)
        if not is_current:
            assert response.errors == [(412, "")]
            return
        assert (response.status, response.document) == (204, None)
        changes[method](identity, targets)
        self._read_resource(identity, Query())

    @rule(data=st.data(), type_name=strategies.types)
    def delete(self, data: st.DataObject, type_name: str) -> None:
        identity = self._existing(data, type_name)
        if identity is None:
            return
        condition, is_current = self._condition(data, identity)
        response = self.client.request("DELETE", resource_path(identity), None, condition)
        if not is_current:
            assert response.errors == [(412, "")]
            return
        assert (response.status, response.document) == (204, None)
        self.model.delete(identity)
        assert self.client.request("GET", resource_path(identity)).errors == [(404, "")]

    # Reads

    @rule(data=st.data(), type_name=strategies.types)
    def read(self, data: st.DataObject, type_name: str) -> None:
        identity = self._existing(data, type_name)
        if identity is not None:
            self._read_resource(identity, data.draw(strategies.resource_queries(type_name)))

    @rule(data=st.data(), type_name=strategies.types)
    def read_collection(self, data: st.DataObject, type_name: str) -> None:
        for _ in range(QUERIES):
            query = data.draw(strategies.collection_queries(type_name, self._ids(type_name)))
            self._read_collection(f"/{type_name}s", type_name, query)

    @rule(data=st.data(), type_name=strategies.types)
    def read_related(self, data: st.DataObject, type_name: str) -> None:
        identity, target = self._existing(data, type_name), TARGETS[RELATIONSHIPS[type_name]]
        if identity is None:
            return
        if type_name == "computer":
            self._read_owner(identity, data.draw(strategies.resource_queries(target)))
            return
        query = data.draw(strategies.collection_queries(target, self._ids(target)))
        self._read_collection(f"{resource_path(identity)}/computers", target, query, identity)

    @rule(data=st.data(), type_name=strategies.types)
    def read_linkage(self, data: st.DataObject, type_name: str) -> None:
        identity, target = self._existing(data, type_name), TARGETS[RELATIONSHIPS[type_name]]
        if identity is None:
            return
        query = Query()
        if type_name == "person":
            query = data.draw(strategies.collection_queries(target, self._ids(target)))
        query = replace(
            query, include=data.draw(strategies.includes(type_name)), sizes={}, counts=()
        )
        self._read_linkage(identity, query)

    @rule(data=st.data(), type_name=strategies.types)
    def page_by_cursor(self, data: st.DataObject, type_name: str) -> None:
        """Follow the links of cursor pages to the end, and back from the last page."""
        query = data.draw(strategies.collection_queries(type_name, self._ids(type_name)))
        self._page_by_cursor(type_name, query, size=data.draw(st.integers(1, 4)))

    def _page_by_cursor(self, type_name: str, query: Query, size: int) -> None:
        first = replace(query, page={"size": size}).url(f"/{type_name}s")
        ids = self.model.select(type_name, query)
        pages = self._pages(first, "next")
        assert pages == [ids[at : at + size] for at in range(0, len(ids), size) or [0]]
        last = self.client.request("GET", first).document["links"]["last"]
        pages = self._pages(last.removeprefix(self.client.origin), "prev")
        ends = range(len(ids), 0, -size) or [0]
        assert pages == [ids[max(0, end - size) : end] for end in ends]

    @invariant()
    def each_change_has_a_revision(self) -> None:
        """A request leaves a revision of each resource that it changes, and no other."""
        added = self.model.revise()
        new = self._new_revisions()
        assert sorted(map(told_by, new)) == sorted(
            (identity, *revision) for identity, revision in added.items()
        )
        assert len({(each["attributes"]["at"], each["attributes"]["author"]) for each in new}) <= 1
        for identity in added.keys() & self.model.resources.keys():
            url = f"{resource_path(identity)}/revisions?sort=id"
            found = self._get(url).document["data"]
            expected = [(identity, *revision) for revision in self.model.revisions[identity]]
            assert list(map(told_by, found)) == expected
            if any(name != "owner" for name in (*expected[-1][2], *expected[-1][3])):
                url = f"{resource_path(identity)}?fields[{identity[0]}]=updated_at"
                updated_at = self._get(url).document["data"]["attributes"]["updated_at"]
                assert found[-1]["attributes"]["at"] == updated_at

    @invariant()
    def only_attributes_are_updated(self) -> None:
        """A change of links changes no times, and nothing changes the time of a creation."""
        for type_name in RELATIONSHIPS:
            url = f"/{type_name}s?fields[{type_name}]=created_at,updated_at"
            for resource in self._get(url).document["data"]:
                identity = type_name, int(resource["id"])
                now = resource["attributes"], dict(self.model.attributes(identity))
                before = self.times.setdefault(identity, now)
                assert now[0]["created_at"] == before[0]["created_at"]
                assert now[0] == before[0] or now[1] != before[1], "a change of links is an update"
                self.times[identity] = now

    def teardown(self) -> None:
        """Read every route, and the collections in every order and with every operator."""
        for type_name, relationship in RELATIONSHIPS.items():
            for query in self._all_orders_and_operators(type_name):
                self._read_collection(f"/{type_name}s", type_name, query)
                if query.sort:
                    self._page_by_cursor(type_name, query, size=3)
            self._read_collection(f"/{type_name}s", type_name, Query())
            everything = Query(include=(f"{relationship}.{RELATIONSHIPS[TARGETS[relationship]]}",))
            self._read_collection(f"/{type_name}s", type_name, everything)
            for id_ in self.model.ids(type_name):
                identity = type_name, id_
                self._read_resource(identity, Query())
                self._read_resource(identity, everything)
                self._read_linkage(identity, Query(include=(relationship,)))
                if type_name == "computer":
                    self._read_owner(identity, Query())
                else:
                    path = f"{resource_path(identity)}/computers"
                    self._read_collection(path, "computer", Query(), identity)

    def _all_orders_and_operators(self, type_name: str) -> Iterator[Query]:
        fields = {type_name: ()}
        for name in strategies.SORT_NAMES[type_name]:
            yield Query(fields, sort=(name,))
            yield Query(fields, sort=(f"-{name}",))
        relationship = RELATIONSHIPS[type_name]
        compared = [("", (type_name, id_)) for id_ in self.model.ids(type_name)[:1]]
        linked = [
            member
            for id_ in self._ids(type_name)
            for member in self.model.members((type_name, id_))
        ]
        compared += [(f"{relationship}.", identity) for identity in linked[:1]]
        for prefix, identity in compared:
            for name in strategies.NAMES[identity[0]]:
                if prefix and name == "owner":
                    continue
                value = self.model.value(identity, name)
                operands = {"null": True, "in": [value]}
                if isinstance(value, str):
                    operands["contains"] = value.swapcase()
                for operator in strategies.operators(identity[0], name):
                    operand = operands.get(operator, value)
                    if operand is not None or operator in {"eq", "ne"}:
                        condition = {"name": f"{prefix}{name}", "op": operator, "val": operand}
                        yield Query(fields, combined=(condition,))

    def _new_revisions(self) -> list[Any]:
        """Return the revisions that are newer than those of the last call."""
        newest = self._get("/revisions?sort=-id&page[size]=100").document["data"]
        new = [revision for revision in newest if int(revision["id"]) > self.last_revision]
        self.last_revision = max(map(int, (each["id"] for each in newest)), default=0)
        return new

    # What requests are made of

    def _ids(self, type_name: str) -> list[int]:
        return self.model.ids(type_name)

    def _existing(self, data: st.DataObject, type_name: str) -> Identity | None:
        ids = self._ids(type_name)
        return (type_name, data.draw(st.sampled_from(ids))) if ids else None

    def _targets(self, type_name: str) -> st.SearchStrategy[list[int]]:
        """Return a strategy of linkage to existing resources, possibly repeated."""
        ids = self._ids(TARGETS[RELATIONSHIPS[type_name]])
        if not ids:
            return st.just([])
        return st.lists(st.sampled_from(ids), max_size=1 if type_name == "computer" else 5)

    def _condition(self, data: st.DataObject, identity: Identity) -> tuple[dict[str, str], bool]:
        """Return an `If-Match` header or none, and whether the resource matches it."""
        self._read_resource(identity, Query())
        tags = self.tags[identity]
        known = [tag for tags in self.tags.values() for tag in tags]
        sent = data.draw(st.just([]) | st.lists(st.sampled_from(["*", '"1"', *known]), max_size=2))
        if not sent:
            return {}, True
        current = self.model.versions[identity]
        if "*" in sent:
            return {"If-Match": "*"}, True
        return {"If-Match": ", ".join(sent)}, any(tags.get(tag) == current for tag in sent)

    # Comparisons

    def _check_written(
        self, response: Response, identity: Identity, query: Query, *, is_linked: bool
    ) -> None:
        """Compare a response to POST or PATCH. is_linked: whether the request had a linkage."""
        expected = self.model.document(
            [identity], query, {"self": resource_path(identity)}, many=False
        )
        name = RELATIONSHIPS[identity[0]]
        known = expected["data"].get("relationships", {}).get(name, {})
        if is_linked and "data" not in known:
            shown = self.model.resource_object(identity, query, {identity: {name: None}})
            expected["data"]["relationships"] = shown["relationships"]
        self._compare(response.document, expected)

    def _read_resource(self, identity: Identity, query: Query) -> None:
        links = {"self": resource_path(identity)}
        response = self._get(query.url(resource_path(identity)))
        expected = self.model.document([identity], query, links, many=False)
        self._compare(response.document, expected)
        if query == Query():
            self._check_tag(identity, response.headers["ETag"])

    def _check_tag(self, identity: Identity, tag: str) -> None:
        """The entity tag changes when the resource or its links change, and only then."""
        tags, version = self.tags[identity], self.model.versions[identity]
        assert tags.setdefault(tag, version) == version, "the tag of another version"
        assert len(tags) == len(set(tags.values())), "another tag of the same version"

    def _read_owner(self, identity: Identity, query: Query) -> None:
        path = f"{resource_path(identity)}/owner"
        owners = self.model.members(identity)
        response = self._get(query.url(path))
        expected = self.model.document(owners, query, {"self": path}, many=False)
        self._compare(response.document, expected)

    def _read_collection(
        self, path: str, type_name: str, query: Query, owner: Identity | None = None
    ) -> None:
        ids = self._selected(type_name, query, owner)
        page, links, meta = self._page(ids, path, query)
        expected = self.model.document([(type_name, id_) for id_ in page], query, links, many=True)
        response = self._get(query.url(path))
        self._compare(response.document, {**expected, "meta": meta})

    def _read_linkage(self, identity: Identity, query: Query) -> None:
        path, name = resource_path(identity), RELATIONSHIPS[identity[0]]
        own = f"{path}/relationships/{name}"
        if identity[0] == "computer":
            page, links = self.model.members(identity), {"self": own, "related": f"{path}/{name}"}
            expected = self.model.linkage_document(identity, page, query, links)
        else:
            ids, links, meta = self._page(self._selected("computer", query, identity), own, query)
            links["related"] = f"{self.client.origin}{path}/{name}"
            page = [("computer", id_) for id_ in ids]
            expected = self.model.linkage_document(identity, page, query, links) | {"meta": meta}
        self._compare(self._get(query.url(own)).document, expected)

    def _selected(self, type_name: str, query: Query, owner: Identity | None) -> list[int]:
        within = None if owner is None else [id_ for _, id_ in self.model.members(owner)]
        return self.model.select(type_name, query, within)

    def _page(
        self, ids: list[int], path: str, query: Query
    ) -> tuple[list[int], dict[str, Any], dict[str, int]]:
        """Return the ids, links and `meta` of the numbered page, or of the whole collection."""
        links: dict[str, Any] = {"self": self.client.origin + query.url(path)}
        if not query.page:
            return ids, links, {"count": len(ids)}
        number, size = int(query.page["number"]), int(query.page["size"])
        is_counted, last = "total" not in query.page, max(1, -(-len(ids) // size))
        page = ids[(number - 1) * size : number * size]

        def link(number: int) -> str:
            members = {**query.page, "number": number}
            return self.client.origin + query.url(path, members)

        preceding = min(number - 1, last) if is_counted else number - 1
        links |= {"first": link(1), "prev": link(preceding) if preceding else None}
        links["next"] = link(number + 1) if len(ids) > number * size else None
        if is_counted:
            links["last"] = link(last)
        return page, links, {"count": len(page)} | ({"total": len(ids)} if is_counted else {})

    def _pages(self, url: str, link: str) -> list[list[int]]:
        pages, target = [], url
        while target:
            document = self._get(target).document
            pages.append([int(resource["id"]) for resource in document["data"]])
            links = document["links"]
            cursors = {name: cursor(links[to], name) for to, name in CURSORS.items()}
            (back,) = CURSORS.keys() - {link}
            assert (links[back] is None) == (len(pages) == 1), "only the first has none before it"
            assert document["meta"] == {"count": len(pages[-1]), "page": cursors}
            target = (links[link] or "").removeprefix(self.client.origin)
        return pages

    def _get(self, url: str) -> Response:
        response = self.client.request("GET", url)
        assert response.status == 200, response.document
        if tag := response.headers.get("ETag"):
            again = self.client.request("GET", url, None, {"If-None-Match": tag})
            assert (again.status, again.document) == (304, None)
        return response

    def _compare(self, document: Any, expected: Any) -> None:
        """Compare documents, whatever the order of included resources.

        An included resource may have relationships that are followed from its type on another
        path: they have to be true, but need not be there.
        """
        for resource in document.get("included", []):
            self._drop_other_relationships(resource, expected["included"])
        for value in (document, expected):
            value.get("included", []).sort(key=lambda resource: (resource["type"], resource["id"]))
        self._check_page_links(document)
        assert document == expected

    def _drop_other_relationships(self, resource: Any, expected: Any) -> None:
        same = [wanted for wanted in expected if wanted["id"] == resource["id"]]
        kept = {name for value in same for name in value.get("relationships", {})}
        name = RELATIONSHIPS[resource["type"]]
        if "relationships" in resource and name not in kept:
            identity = resource["type"], int(resource["id"])
            assert resource.pop("relationships")[name]["data"] == self.model.linkage(identity)

    def _check_page_links(self, document: Any) -> None:
        """Follow the links to the members that a relationship does not show, then drop them."""
        primary = document["data"] if isinstance(document["data"], list) else [document["data"]]
        for resource in [*primary, *document.get("included", [])]:
            shown = (resource or {}).get("relationships", {}).get("computers")
            if shown is None or "first" not in shown["links"]:
                continue
            identity = resource["type"], int(resource["id"])
            links, count = shown["links"], len(shown["data"])
            rest = self.model.linkage(identity)[count:]
            assert links["prev"] is None
            assert (links["next"] is None) == (not rest)
            if rest:
                assert self._get(links["next"]).document["data"] == rest[:count]
            for name in ("first", "last", "prev", "next"):
                del links[name]


@pytest.mark.parametrize("examples", EXAMPLES)
def test_responses_match_the_model(examples: int, start: Start, mongodb_uri: str) -> None:
    client = Client(start(*OPTIONS, mongodb_uri=mongodb_uri).url)
    run_state_machine_as_test(
        partial(Comparison, client),  # type: ignore[arg-type] # any factory is called
        settings=settings(
            max_examples=examples * SCALE,
            stateful_step_count=30,
            derandomize=SCALE == 1,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    client.close()

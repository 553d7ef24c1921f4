"""The checker accepts a consistent history, and refuses each kind of inconsistent one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.consistency.checker import Rules, violations
from tests.consistency.history import Call

RULES = Rules(
    codes={"1": ["1", "2"]},
    replaced=frozenset({"2"}),
    groups=[frozenset({("person", "3"), ("computer", "3")})],
)


def person(id_: str, name: str, computers: list[str] | None = None) -> dict[str, Any]:
    data = {"type": "person", "id": id_, "attributes": {"last_name": name}}
    return data if computers is None else data | {"relationships": linked(computers)}


def linked(computers: list[str]) -> dict[str, Any]:
    return {"computers": {"data": [{"type": "computer", "id": one} for one in computers]}}


def computer(id_: str, serial: str, owner: str | None = "") -> dict[str, Any]:
    data = {"type": "computer", "id": id_, "attributes": {"serial": serial}}
    target = {"type": "person", "id": owner} if owner else None
    return data if owner == "" else data | {"relationships": {"owner": {"data": target}}}


def read(start: float, url: str, data: Any, included: Any = None, version: int = 0) -> Call:
    """Return a GET request that takes one second."""
    document = {"data": data} if included is None else {"data": data, "included": included}
    tag = f'"{version}-0"' if version else None
    return Call(start, start + 1, "GET", url, 200, document=document, tag=tag)


def write(start: float, data: Any, version: int, if_match: str | None = None) -> Call:
    """Return a PATCH request that takes one second and shows what was sent."""
    url, tag = f"/{data['type']}s/{data['id']}", f'"{version}-0"'
    body = {"data": data}
    return Call(start, start + 1, "PATCH", url, 200, body, body, tag, if_match)


def created(start: float, data: Any) -> Call:
    body = {"data": data}
    return Call(start, start + 1, "POST", f"/{data['type']}s", 201, body, body, '"1-0"')


def deleted(start: float, type_name: str, id_: str) -> Call:
    return Call(start, start + 1, "DELETE", f"/{type_name}s/{id_}", 204)


def reasons(*history: Call) -> list[str]:
    return [violation.reason for violation in violations(history, RULES)]


def test_a_consistent_history_has_no_violations() -> None:
    history = [
        created(0, person("1", "a-0")),
        created(0, computer("1", "b")),
        write(2, person("1", "c-1", ["1"]), 2),
        write(2.5, computer("1", "d"), 3),
        read(2.5, "/persons/1?include=computers", person("1", "a-0", []), [], 1),
        read(4, "/persons/1?include=computers", person("1", "c-1", ["1"]), [computer("1", "d")], 2),
        read(4, "/computers", [computer("1", "d")]),
        deleted(6, "computer", "1"),
        read(8, "/computers", []),
    ]
    assert reasons(*history) == []


@pytest.mark.parametrize(
    ("data", "included", "reason"),
    [
        (person("1", "a-1", ["2"]), None, "attributes and links of different times"),
        (person("1", "a-3", ["1"]), None, "attributes and links of different times"),
        (person("4", "a", ["1"]), [], "`included` lacks a resource"),
        (person("4", "a", []), [computer("1", "b")], "`included` has a resource that nothing"),
        (person("4", "a", ["1"]), [computer("1", "b", "5"), person("5", "a")], "the two sides"),
        (person("4", "a", []), [computer("1", "b", "4")], "the two sides"),
        ([person("4", "a", ["1"]), person("5", "a", ["1"])], None, "a computer with two owners"),
        ([person("3", "a"), computer("3", "b")], None, "resources of different times"),
    ],
)
def test_a_mixed_document_is_refused(data: Any, included: Any, reason: str) -> None:
    found = reasons(read(0, "/persons/9", data, included))
    assert any(one.startswith(reason) for one in found), found


@pytest.mark.parametrize(
    ("meta", "reason"),
    [({"count": 2}, "`count` is not"), ({"count": 1, "total": 2}, "`total` and resources")],
)
def test_counts_of_another_time_are_refused(meta: Any, reason: str) -> None:
    call = read(0, "/persons?page[number]=1&page[size]=1000", [person("4", "a")])
    found = reasons(replace(call, document={**call.document, "meta": meta}))
    assert len(found) == 1
    assert found[0].startswith(reason)


@pytest.mark.parametrize("shown", [person("1", "b-1", ["1"]), person("1", "a-0", ["1"])])
def test_a_response_that_does_not_show_the_write_is_refused(shown: Any) -> None:
    call = write(0, person("1", "a-0", []), 2)
    assert any(
        one.startswith("the response shows")
        for one in reasons(replace(call, document={"data": shown}))
    )


def test_two_states_with_one_entity_tag_are_refused() -> None:
    first = read(0, "/persons/4?include=computers", person("4", "a", []), [], 2)
    for other in (person("4", "b"), person("4", "a", ["1"])):
        assert reasons(first, read(0, "/persons/4", other, None, 2)) == [
            "the entity tag of another state"
        ]


@pytest.mark.parametrize(
    "stale",
    [
        read(4, "/persons/4", person("4", "a"), None, 1),
        read(4, "/persons", [person("4", "a")]),
        read(4, "/persons/4/relationships/computers", [], None, 1),
        write(4, person("4", "c"), 1),
    ],
)
def test_a_stale_response_is_refused(stale: Call) -> None:
    history = created(0, person("4", "a")), write(2, person("4", "b"), 2)
    assert "a stale read" in reasons(*history, stale)
    later = replace(stale, start=2.5)  # concurrent with the write
    assert "a stale read" not in reasons(*history, later)


def test_versions_that_go_back_between_two_reads_are_refused() -> None:
    newer = read(2, "/persons/4", person("4", "b"), None, 2)
    older = read(4, "/persons/4", person("4", "a"), None, 1)
    assert reasons(newer, older) == ["a stale read"]
    assert reasons(newer, replace(older, start=2.5)) == []


def test_a_document_that_shows_a_later_write_without_an_earlier_one_is_refused() -> None:
    history = [
        created(0, computer("4", "a")),
        created(0, computer("5", "a")),
        write(2, computer("4", "b"), 2),
        write(4, computer("5", "b"), 2),
    ]
    mixed = read(1, "/computers", [computer("4", "a"), computer("5", "b")])
    assert reasons(*history, replace(mixed, end=9)) == ["resources of different times"]
    one_time = read(1, "/computers", [computer("4", "b"), computer("5", "a")])
    assert reasons(*history, replace(one_time, end=9)) == []


def test_a_deleted_resource_that_is_shown_is_refused() -> None:
    history = created(0, computer("4", "a")), deleted(2, "computer", "4")
    found = reasons(*history, read(4, "/computers", [computer("4", "a")]))
    assert found == ["a stale read", "('computer', '4') is not yet or no longer there"]


def test_links_of_an_earlier_write_are_refused() -> None:
    path = "/persons/2/relationships/computers"
    body = [{"data": [{"type": "computer", "id": id_}]} for id_ in "12"]
    history = [
        Call(0, 1, "PATCH", path, 204, body[0]),
        Call(2, 3, "PATCH", path, 204, body[1]),
    ]
    stale = read(4, path, body[0]["data"])
    assert reasons(*history, stale) == ["links that are not those of the latest write"]
    assert reasons(*history, replace(stale, start=2.5)) == []
    unknown = replace(history[0], status=None)  # may be applied at any later time
    assert reasons(unknown, history[1], stale) == []


def test_a_second_winner_is_refused() -> None:
    first = write(0, person("4", "b"), 2, '"1-0"')
    assert reasons(first, write(0, person("4", "c"), 3, '"1-0"')) == [
        "a second write with the same `If-Match`"
    ]


def test_a_failed_condition_without_a_winner_is_refused() -> None:
    loser = Call(1, 2, "PATCH", "/persons/4", 412, {"data": person("4", "c")}, if_match='"1-0"')
    assert reasons(loser) == ["412 although nothing has changed"]
    assert reasons(loser, write(0, person("4", "b"), 2, '"1-0"')) == []


def test_pages_that_skip_or_repeat_a_resource_are_refused() -> None:
    history = [created(0, person("4", "a")), created(0, person("5", "a"))]
    pages = [
        replace(read(at, "/persons?page[size]=1", [person(id_, "a")]), paging=1)
        for at, id_ in ((2, "4"), (4, "5"))
    ]
    assert reasons(*history, *pages) == []
    assert reasons(*history, pages[0]) == ["the collection lacks ('person', '5')"]
    assert reasons(*history, *pages, pages[1]) == ["the collection repeats ('person', '5')"]
    assert reasons(*history, read(2, "/persons", [person("5", "a")])) == [
        "the collection lacks ('person', '4')"
    ]
    assert reasons(*history, deleted(2, "person", "5"), pages[0]) == []


def test_a_resource_whose_sort_key_changes_may_be_skipped() -> None:
    history = [created(0, person("4", "a")), created(0, person("5", "a"))]
    page = replace(read(2, "/persons?page[size]=1&sort=last_name", [person("4", "a")]), paging=1)
    following = replace(page, start=4, end=5, document={"data": []})
    skipped = ["the collection lacks ('person', '5')"]
    assert reasons(*history, page, following) == skipped
    assert reasons(*history, page, following, write(2, person("5", "0"), 2)) == []


def test_an_id_that_is_given_twice_is_refused() -> None:
    history = [created(0, person("4", "a")), deleted(2, "person", "4")]
    assert "an id that was given before" in reasons(*history, created(4, person("4", "b")))

"""Documents of many resources are parsed and built beside the event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from registry.http.views import collection, document_view, relationship
from registry.offloading import MAX_INLINE_OBJECTS
from registry.storage.writes.unit_of_work import UnitOfWork
from tests.support import Api, Database, to_many

COUNT = MAX_INLINE_OBJECTS + 1


@pytest.fixture
async def fleet(api: Api, database: Database) -> Api:
    """A person with many computers."""
    await database.persons.insert_many(
        {"_id": number, "first_name": "Ada", "last_name": "Hopper", "email": None}
        for number in (1, 2)
    )
    await database.computers.insert_many(
        {"_id": number, "serial": "x", "person": 1} for number in range(1, COUNT + 1)
    )
    return api


class Threads:
    """Records the threads that call functions."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.seen: list[threading.Thread] = []

    def record(self, owner: Any, name: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        def recording(*arguments: Any, **options: Any) -> Any:
            self.seen.append(threading.current_thread())
            return function(*arguments, **options)

        self._patch.setattr(owner, name, recording)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    return Threads(monkeypatch)


@pytest.mark.parametrize(
    "path",
    [
        "/persons/1?include=computers",
        "/computers/1/owner?include=computers",
        "/persons?page[size]=1&include=computers",
    ],
)
async def test_a_large_response_is_built_in_thread(fleet: Api, threads: Threads, path: str) -> None:
    for view in (collection, document_view, relationship):
        threads.record(view, "encode_document")
    response = await fleet.get(path)
    assert response.status == 200
    assert f'"{COUNT}"' in str(response.document).replace("'", '"')
    (thread,) = threads.seen
    assert thread is not threading.current_thread()


async def test_a_large_change_is_applied_in_a_thread(fleet: Api, threads: Threads) -> None:
    threads.record(relationship, "load_linkage")
    threads.record(UnitOfWork, "_apply")
    members = to_many(*map(str, range(1, COUNT + 1)))["data"]
    padded = [{**member, "meta": {"note": "x" * 100}} for member in members]
    response = await fleet.patch("/persons/2/relationships/computers", padded)
    assert response.status == 204
    assert len(threads.seen) == 2
    assert threading.current_thread() not in threads.seen
    assert len((await fleet.get("/persons/2/computers")).data) == COUNT

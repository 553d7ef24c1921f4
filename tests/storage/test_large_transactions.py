"""What one transaction can take is bounded."""

import pytest

from registry.jsonapi.error_types import TooManyRelated
from registry.storage.writes import unit_of_work
from tests.conftest import Serve
from tests.storage.writing import Registry, insert_fleet
from tests.support import Database


async def test_a_deletion_that_unlinks_too_many_resources_is_refused_and_possible_in_parts(
    serve: Serve, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_of_work, "_MAX_MEMBERS", 5)
    monkeypatch.setattr(unit_of_work, "_MAX_MEMBERS_ALONE", 10)
    await insert_fleet(database, 2, 12)
    await database.computers.update_many({}, {"$set": {"person": 1}})
    registry = Registry(await serve())
    for write in (registry.delete(("person", 1)), registry.update(("person", 1), computers=[1])):
        with pytest.raises(TooManyRelated):
            await registry.write(write)
    assert await database.computers.count_documents({"person": 1}) == 12
    await registry.write(registry.update(("person", 2), computers=[1, 2, 3]))
    await registry.write(registry.delete(("person", 1)))
    assert await database.computers.distinct("person") == [None, 2]

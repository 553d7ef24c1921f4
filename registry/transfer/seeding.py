"""Seeding: generated persons and computers, created through the service."""

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from itertools import islice

from registry.transfer.batches import MAX_OPERATIONS
from registry.transfer.client import Client
from registry.transfer.generator import Generator
from registry.transfer.operations import (
    Operation,
    add_computer,
    add_person,
    identifier,
    local_identifier,
)
from registry.transfer.pipeline import pipelined
from registry.transfer.progress import Progress
from registry.transfer.rows import COMPUTER, PERSON
from registry.transfer.tally import Effect, Tally


class Seeding:
    """Creates generated persons, then computers. The methods raise what Client raises."""

    def __init__(self, client: Client, tally: Tally, progress: Progress) -> None:
        self._client = client
        self._tally = tally
        self._progress = progress

    async def run(self, generator: Generator) -> None:
        """Create everything that the generator yields."""
        owners = await self._create(PERSON, _person_operations(generator))
        await self._create(COMPUTER, _computer_operations(generator, owners))

    async def _create(self, type_name: str, operations: Iterator[Operation]) -> list[str]:
        """Execute operations that add resources of a type; return their ids, in order."""
        ids: list[str] = []

        async def execute(batch: list[Operation]) -> list[str]:
            results = await self._client.execute(batch)
            self._tally.counts[Effect.CREATED, type_name] += len(batch)
            owned = sum("relationships" in one["data"] for one in batch)
            self._tally.owned = (self._tally.owned or 0) + owned
            self._progress.add(len(batch))
            return [result["data"]["id"] for result in results]

        async with aclosing(pipelined(_batches(operations), execute)) as created:
            async for batch in created:
                ids += batch
        return ids


def _person_operations(generator: Generator) -> Iterator[Operation]:
    for number, attributes in enumerate(generator.persons()):
        yield add_person(local_identifier(PERSON, str(number)), attributes)


def _computer_operations(generator: Generator, owners: Sequence[str]) -> Iterator[Operation]:
    for attributes, owner in generator.computers(owners):
        yield add_computer(attributes, identifier(PERSON, owner) if owner else None)


def _batches(operations: Iterator[Operation]) -> Iterator[list[Operation]]:
    while batch := list(islice(operations, MAX_OPERATIONS)):
        yield batch

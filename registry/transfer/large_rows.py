"""Rows that are too large for one request: stored in several, or not at all."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

from registry.transfer.client import Client, OperationsRejected, TransferError
from registry.transfer.operations import (
    Operation,
    ResourceIdentifier,
    add_computer,
    identifier,
    remove,
    set_owner,
)
from registry.transfer.plans import Plan
from registry.transfer.rows import COMPUTER, PERSON

_Item = TypeVar("_Item")

_PART = 500
"""Operations per request: within 1 MiB whatever the length of the serials."""


async def check_large(plan: Plan, client: Client) -> None:
    """Check the person and the new computers of a row without storing them.

    Raises as Client.execute does.
    """
    creations = [add_computer(attributes, None) for _, attributes in plan.new_computers]
    for part in _parts([*plan.person_operations(), *creations]):
        await client.execute(part, is_dry=True)


async def store_large(plan: Plan, client: Client) -> ResourceIdentifier | None:
    """Store a row; return its person. Raises as Client.execute does.

    A new person is created first, so that each computer has its owner at any time, and the row can
    be continued by one that matches it. If the service rejects a request, those before are undone;
    raises TransferError if it rejects that too.
    """
    person, undo = plan.person, list[Operation]()
    try:
        if plan.is_new:
            (created,) = await client.execute(plan.person_operations())
            person = identifier(PERSON, created["data"]["id"])
            undo.append(remove(person))
        for part in _parts([add_computer(each, person) for _, each in plan.new_computers]):
            results = await client.execute(part)
            undo += [remove(identifier(COMPUTER, each["data"]["id"])) for each in results]
        for moved in _parts(plan.moved):
            await client.execute([set_owner(each.identifier, person) for each in moved])
            undo += [set_owner(each.identifier, each.owner) for each in moved]
        if not plan.is_new and (changes := plan.person_operations()):
            await client.execute(changes)
    except OperationsRejected:
        await _undo(undo[::-1], plan.row.line, client)
        raise
    return person


async def _undo(operations: Sequence[Operation], line: int, client: Client) -> None:
    try:
        for part in _parts(operations):
            await client.execute(part)
    except OperationsRejected as error:
        reason = f"line {line} is stored in part, and cannot be undone: {error}"
        raise TransferError(reason) from error


def _parts(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    source = iter(items)
    while part := list(islice(source, _PART)):
        yield part

"""Validators: MongoDB refuses records that do not have the form that their type declares."""

import logging
from typing import Any

from pymongo.errors import OperationFailure

from registry.model.graph import Graph
from registry.storage.mongo.mongo_client import Database
from registry.storage.records import record_schema

_log = logging.getLogger("registry")

_NAMESPACE_EXISTS = 48

_REMEDY = (
    "What other programs write to it is not validated as this version declares it. Grant the user "
    "of the service the role dbAdmin on its database, and start it again."
)


async def prepare_validators(database: Database, graph: Graph) -> None:
    """Create missing collections with their validators, and replace outdated ones.

    Records that were invalid before stay, and may be updated (`moderate`). Raises PyMongoError, but
    only logs why a validator cannot be replaced.
    """
    names = [resource.collection for resource in graph.values()]
    listed = await database.command("listCollections", filter={"name": {"$in": names}})
    existing = {one["name"]: one["options"] for one in listed["cursor"]["firstBatch"]}
    for resource in graph.values():
        name = resource.collection
        wanted = {
            "validator": {"$jsonSchema": record_schema(resource)},
            "validationLevel": "moderate",
            "validationAction": "error",
        }
        if name not in existing:
            await _create(database, name, wanted)
        elif {key: existing[name].get(key) for key in wanted} != wanted:
            await _replace(database, name, wanted)


async def _create(database: Database, name: str, options: dict[str, Any]) -> None:
    try:
        await database.command("create", name, **options)
    except OperationFailure as error:
        if error.code != _NAMESPACE_EXISTS:  # else another process has created it
            raise


async def _replace(database: Database, name: str, options: dict[str, Any]) -> None:
    try:
        await database.command("collMod", name, **options)
    except OperationFailure as error:
        reason = (error.details or {}).get("errmsg")
        _log.warning("Cannot set the validator of %s: %s. %s", name, reason, _REMEDY)
    else:
        _log.info("Set the validator of %s", name)

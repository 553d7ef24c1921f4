"""The documents of the naive server, equal to those of the service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
from aiohttp import web
from motor.motor_asyncio import AsyncIOMotorDatabase

from registry.protocol import MEDIA_TYPE

Record = dict[str, Any]
ResourceObject = dict[str, Any]

DATABASE = web.AppKey("database", AsyncIOMotorDatabase[Record])

VISIBLE = {"password": False}


def respond(document: dict[str, Any], status: int = 200) -> web.Response:
    """Return the response with a document."""
    return web.Response(status=status, body=orjson.dumps(document), content_type=MEDIA_TYPE)


def respond_with(
    resource: ResourceObject,
    status: int = 200,
    included: Iterable[ResourceObject] | None = None,
) -> web.Response:
    """Return the response with one resource. included: None if the request has no `include`."""
    links = {"self": resource["links"]["self"]}
    document: dict[str, Any] = {"data": resource, "jsonapi": {"version": "1.0"}, "links": links}
    if included is not None:
        document["included"] = list(included)
    return respond(document, status)


def person(record: Record) -> ResourceObject:
    """Return the resource object of a person."""
    number = str(record["_id"])
    return {
        "type": "person",
        "id": number,
        "attributes": {
            "first_name": record["first_name"],
            "last_name": record["last_name"],
            "full_name": f"{record['first_name']} {record['last_name']}",
            "email": record["email"],
        },
        "links": {"self": f"/persons/{number}"},
    }


def created_person(record: Record) -> ResourceObject:
    """Return the resource object of a person in the response to its creation."""
    resource = person(record)
    del resource["attributes"]["full_name"]
    return resource


def computer(record: Record) -> ResourceObject:
    """Return the resource object of a computer, without its owner."""
    number = str(record["_id"])
    return {
        "type": "computer",
        "id": number,
        "attributes": {"serial": record["serial"]},
        "links": {"self": f"/computers/{number}"},
    }


def computer_with_owner(record: Record) -> ResourceObject:
    """Return the resource object of a computer, with the linkage of its owner."""
    resource, owner = computer(record), record["person"]
    linkage = None if owner is None else {"type": "person", "id": str(owner)}
    return _with_linkage(resource, "owner", linkage)


def person_with_computers(record: Record, members: list[dict[str, str]]) -> ResourceObject:
    """Return the resource object of a person, with the linkage of its computers."""
    return _with_linkage(person(record), "computers", members)


def _with_linkage(resource: ResourceObject, name: str, linkage: object) -> ResourceObject:
    path = resource["links"]["self"]
    links = {"self": f"{path}/relationships/{name}", "related": f"{path}/{name}"}
    return {**resource, "relationships": {name: {"data": linkage, "links": links}}}

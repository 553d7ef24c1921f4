"""The HTTP client, which creates persons and computers."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import aiohttp

from seeding.tally import Tally

TIMEOUT_SECONDS = 30

_JSON_API = "application/vnd.api+json"
_ATOMIC = f'{_JSON_API}; ext="https://jsonapi.org/ext/atomic"'
_SUCCESS = {200, 201}
_INVALID = {400, 413, 422}
"""Statuses of a resource that the service will never accept."""


class SeedError(Exception):
    """The run cannot continue; the message says why in one line."""


class InvalidResourceError(SeedError):
    """A person or computer is invalid; each argument describes one error."""

    def __str__(self) -> str:
        return "; ".join(self.args)


class Client:
    """A client of the registry, which counts what it creates in a tally.

    Requests are not retried, because one without a response may have been carried out. The methods
    raise InvalidResourceError if the service rejects the resource, SeedError if it fails.
    """

    def __init__(self, session: aiohttp.ClientSession, tally: Tally) -> None:
        self._session = session
        self._tally = tally

    async def create_person(self, attributes: dict[str, str]) -> str:
        """Create a person and return its id."""
        identifier = await self._create("persons", {"type": "person", "attributes": attributes})
        self._tally.persons += 1
        return identifier

    async def create_computer(self, serial: str, owner: str | None) -> None:
        """Create a computer owned by the person with the id `owner`, or without an owner."""
        identifier = None if owner is None else {"type": "person", "id": owner}
        await self._create("computers", _computer(serial, identifier))
        self._tally.computers += 1
        self._tally.owned += owner is not None

    async def create_owner(self, attributes: dict[str, str], serials: list[str]) -> None:
        """Create a person and their computers: all of them, or none."""
        owner = {"type": "person", "lid": "owner"}
        resources = [
            owner | {"attributes": attributes},
            *(_computer(serial, owner) for serial in serials),
        ]
        operations = [{"op": "add", "data": resource} for resource in resources]
        await self._send("operations", {"atomic:operations": operations}, _ATOMIC)
        self._tally.persons += 1
        self._tally.computers += len(serials)
        self._tally.owned += len(serials)

    async def _create(self, path: str, resource: dict[str, Any]) -> str:
        body = await self._send(path, {"data": resource}, _JSON_API)
        try:
            return str(json.loads(body)["data"]["id"])
        except (ValueError, LookupError, TypeError):
            raise SeedError(f"not a registry: no id in the response to POST /{path}") from None

    async def _send(self, path: str, document: dict[str, Any], media_type: str) -> bytes:
        try:
            async with self._session.post(
                path, json=document, headers={"Content-Type": media_type}, allow_redirects=False
            ) as response:
                body = await response.read()
        except TimeoutError:
            raise SeedError(f"no response from the service within {TIMEOUT_SECONDS} s") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = " ".join(str(error).split())
            raise SeedError(
                f"cannot reach the service (is it running, is --url correct?): {reason}"
            ) from None
        if response.status not in _SUCCESS:
            _raise_error(response, body)
        return body


def _computer(serial: str, owner: dict[str, str] | None) -> dict[str, Any]:
    """Return the resource object of a computer; owner: the identifier of a person."""
    resource: dict[str, Any] = {"type": "computer", "attributes": {"serial": serial}}
    return resource if owner is None else resource | {"relationships": {"owner": {"data": owner}}}


def _raise_error(response: aiohttp.ClientResponse, body: bytes) -> NoReturn:
    try:
        details = [_detail(error) for error in json.loads(body)["errors"]]
    except (ValueError, LookupError, TypeError, AttributeError):
        details = []
    if details and response.status in _INVALID:
        raise InvalidResourceError(*details)
    status = f"{response.status} {response.reason}"
    raise SeedError(": ".join([f"POST {response.url} failed with {status}", *details]))


def _detail(error: dict[str, Any]) -> str:
    attribute = error.get("source", {}).get("pointer", "").rpartition("/")[2]
    return f"{attribute}: {error['detail']}" if attribute else str(error["detail"])

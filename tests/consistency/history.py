"""Recorded requests of concurrent clients, and the facts that each one states."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Identity = tuple[str, str]
"""The type and the id of a resource."""

MARKERS = {"person": "last_name", "computer": "serial"}
"""The attribute of each type that gets a value of its own with every write."""

LINKS = {"person": "computers", "computer": "owner"}

_PATH = re.compile(r"/(person|computer)s/(\d+)(/relationships/\w+)?(?:\?|$)")
_RELATED = re.compile(r"/persons/(\d+)/computers(?:\?include=owner)?$")
_TAG = re.compile(r'"(\d+)-')


def identity_of(part: Mapping[str, Any]) -> Identity:
    """Return the identity of a resource object or identifier."""
    return part["type"], part["id"]


@dataclass(frozen=True)
class Call:
    """A request, its response, and when they began and ended, in seconds.

    status: None if the outcome is unknown: the service did not respond, or with 503.
    paging: the number of the sequence of pages that the request is part of.
    """

    start: float
    end: float
    method: str
    url: str
    status: int | None
    body: Any = None
    document: Any = None
    tag: str | None = None
    if_match: str | None = None
    paging: int | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.url} -> {self.status} [{self.start:.4f}, {self.end:.4f}]"

    @property
    def succeeded(self) -> bool:
        return self.status in {200, 201, 204}

    @cached_property
    def target(self) -> Identity | None:
        """The resource that the request reads or writes, itself or its linkage."""
        if self.status == 201:
            return identity_of(self.document["data"])
        match = _PATH.match(self.url)
        return (match[1], match[2]) if match else None

    @property
    def is_linkage(self) -> bool:
        return "/relationships/" in self.url

    @property
    def version(self) -> int | None:
        """The version of the target in the entity tag."""
        match = _TAG.match(self.tag or "")
        return int(match[1]) if match and self.target else None

    @cached_property
    def primary(self) -> list[Any]:
        """The primary resource objects or identifiers; the results of operations."""
        if not self.succeeded or self.document is None:
            return []
        if "atomic:results" in self.document:
            return [one["data"] for one in self.document["atomic:results"] if "data" in one]
        data = self.document["data"]
        return data if isinstance(data, list) else [data] if data else []

    @cached_property
    def resources(self) -> list[Any]:
        """All resource objects of the response."""
        objects = [one for one in self.primary if "attributes" in one]
        return objects + ((self.document or {}).get("included", []) if self.succeeded else [])

    @cached_property
    def linkages(self) -> dict[Identity, frozenset[str]]:
        """The ids that each resource is linked to, as far as the response shows them."""
        shown = {
            identity_of(one): _ids(one["relationships"][LINKS[one["type"]]]["data"])
            for one in self.resources
            if "relationships" in one
        }
        if self.is_linkage and self.status == 200 and self.target:
            shown[self.target] = _ids(self.document["data"])
        if self.status == 200 and (related := _RELATED.match(self.url)):
            shown["person", related[1]] = _ids(self.document["data"])
        return shown

    @property
    def sent(self) -> Mapping[str, Any]:
        """The resource object of the request."""
        data = (self.body or {}).get("data")
        return data if isinstance(data, dict) and not self.is_linkage else {}

    @property
    def sent_linkage(self) -> frozenset[str] | None:
        """The ids that the request replaces the links of its target with."""
        if self.is_linkage and self.method == "PATCH":
            return _ids(self.body["data"])
        for relationship in self.sent.get("relationships", {}).values():
            return _ids(relationship["data"])
        return None

    def written(self) -> Iterator[Mapping[str, Any]]:
        """Yield the resource objects with the attributes that the request writes."""
        if "attributes" in self.sent and self.target:
            yield {**self.sent, "id": self.target[1]}
        for operation in (self.body or {}).get("atomic:operations", ()):
            if operation["op"] == "update":
                yield operation["data"]


def _ids(linkage: Any) -> frozenset[str]:
    members = linkage if isinstance(linkage, list) else [linkage] if linkage else []
    return frozenset(one["id"] for one in members)

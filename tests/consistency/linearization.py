"""Whether the model explains concurrent requests: in some order, it has the same responses.

A request that has ended before another begins precedes it, so a stale response has no explanation.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

from tests.consistency.model import RELATIONSHIPS, TARGETS, Identity, Model, Query
from tests.support import RESULTS, primary_data

_TAG = re.compile(r'"(\d+)-')


@dataclass(frozen=True)
class Write:
    """A change of one resource.

    identity: for a creation, only its type counts. linkage: ids; None if the links are not sent.
    """

    verb: Literal["create", "update", "add", "remove", "delete"]
    identity: Identity
    attributes: dict[str, str] = field(default_factory=dict)
    linkage: Sequence[int] | None = None

    def apply(self, model: Model, identity: Identity) -> None:
        """Apply the write. identity: of the resource, also of one that is created."""
        match self.verb:
            case "create":
                model.create(identity, self.attributes)
            case "update":
                model.update(identity, self.attributes)
            case "delete":
                model.delete(identity)
        if self.linkage is not None:
            change = {"add": model.add, "remove": model.remove}.get(self.verb, model.replace)
            change(identity, self.linkage)

    def has_targets(self, model: Model) -> bool:
        """Whether the resources that it links exist."""
        target = TARGETS[RELATIONSHIPS[self.identity[0]]]
        return self.verb == "remove" or all(
            (target, id_) in model.resources for id_ in self.linkage or ()
        )


@dataclass(frozen=True)
class Request:
    """A request, and what it means to the model.

    status: of success. target: the resource that must exist. shown: returns the primary resources
    of the document, unless it is a new one. headers: `If-Match` or none.
    """

    method: str
    url: str
    body: Any = None
    status: int = 200
    target: Identity | None = None
    writes: Sequence[Write] = ()
    shown: Callable[[Model], Sequence[Identity]] | None = None
    query: Query = field(default_factory=Query)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A request, its response, and when they began and ended, in seconds."""

    request: Request
    start: float
    end: float
    status: int
    document: Any
    tag: str

    def __str__(self) -> str:
        request = f"{self.request.method} {self.request.url} {self.request.body or ''}"
        return f"[{self.start:.4f}, {self.end:.4f}] {request} -> {self.status} {self.document}"

    @property
    def parts(self) -> list["Call"]:
        """The call; of a write with included resources, the write and then a read of its resource.

        The document shows the commit, with the results of all requests that share the transaction.
        """
        if not self.request.writes or "included" not in (self.document or {}):
            return [self]
        (written,) = map(_identity_of, primary_data(self.document))
        shown = replace(self.request, writes=(), target=written, shown=lambda _: [written])
        document = {"data": {"type": written[0], "id": str(written[1])}}
        write = replace(self.request, query=Query())
        written_part = replace(self, request=write, document=document, tag="")
        return [written_part, replace(self, request=shown)]

    @cached_property
    def version(self) -> int | None:
        """The version of the target in the entity tag."""
        match = _TAG.match(self.tag)
        return int(match[1]) if match and self.request.target else None

    @property
    def results(self) -> list[Any]:
        """The resource object that is the result of each write, None without one."""
        if not self.request.writes or self.document is None or "errors" in self.document:
            return [None] * len(self.request.writes)
        if RESULTS in self.document:
            return [result.get("data") for result in self.document[RESULTS]]
        return [self.document["data"]]


@dataclass
class State:
    """What is stored after some of the calls.

    tags: the version in the model of each version in entity tags.
    """

    model: Model
    tags: dict[tuple[Identity, int], int] = field(default_factory=dict)

    def __repr__(self) -> str:
        model = self.model
        versions = {value: version for value, version in model.versions.items() if version}
        parts = model.resources, model.owners, versions, self.tags
        return repr([sorted(part.items()) for part in parts])

    def after(self, call: Call) -> "State | None":
        """Return the state after a call, itself if nothing changes, None if that is impossible."""
        state = State(self.model.copy(), dict(self.tags))
        if call.status != state._apply(call):
            return None
        if call.status in {404, 412}:
            return self
        if "data" in (call.document or {}) and not _is_shown(state.model, call):
            return None
        if call.request.target and call.version and not state._has_version(call):
            return None
        return state if call.request.writes or state.tags != self.tags else self

    def _apply(self, call: Call) -> int:
        """Apply the writes; return the status, 0 if they cannot have their results."""
        request, model = call.request, self.model
        if request.target and request.target not in model.resources:
            return 404
        if request.target and (match := _TAG.match(request.headers.get("If-Match", ""))):
            required = self.tags.get((request.target, int(match[1])))
            if required != model.versions[request.target]:
                return 412
        for number, (write, result) in enumerate(zip(request.writes, call.results, strict=True)):
            identity = write.identity
            if write.verb == "create":
                identity = identity[0], int(result["id"]) if result else -number - 1
            elif identity not in model.resources:
                return 404
            if not write.has_targets(model):
                return 404
            write.apply(model, identity)
            if result and not _is_true(model, result):
                return 0
        return request.status

    def _has_version(self, call: Call) -> bool:
        """Whether the target can have the version in the tag now: each has a number of its own."""
        target, number = call.request.target, call.version
        assert target
        assert number
        version = self.model.versions[target]
        self.tags.setdefault((target, number), version)
        known = [tag for tag in self.tags.items() if tag[0][0] == target]
        return all(
            (other < number, other == number) == (value < version, value == version)
            for (_, other), value in known
        )


def _identity_of(resource: Any) -> Identity:
    return resource["type"], int(resource["id"])


def _is_true(model: Model, resource: Any) -> bool:
    """Whether a resource object or identifier shows what is stored."""
    identity = _identity_of(resource)
    if identity not in model.resources:
        return False
    stored = model.attributes(identity)
    return all(
        stored[name] == value for name, value in resource.get("attributes", {}).items()
    ) and all(
        relationship["data"] == model.linkage(identity)
        for relationship in resource.get("relationships", {}).values()
    )


def _is_shown(model: Model, call: Call) -> bool:
    """Whether a document shows the resources that it should, and the included ones, as they are."""
    resources = primary_data(call.document)
    primary = list(map(_identity_of, resources))
    if call.request.shown and primary != list(call.request.shown(model)):
        return False
    meta = call.document.get("meta", {})
    if not {meta.get("count"), meta.get("total")} <= {None, len(primary)}:
        return False
    _, reached = model.follow(primary, call.request.query)
    included = call.document.get("included", [])
    if set(map(_identity_of, included)) != reached - {*primary}:
        return False
    return all(_is_true(model, resource) for resource in [*resources, *included])


def explanation(state: State, clients: Sequence[Sequence[Call]]) -> State | None:
    """Return the state after the calls of all clients in an order that explains them, or None."""
    clients = [[part for call in calls for part in call.parts] for calls in clients]
    tried: set[tuple[tuple[int, ...], str]] = set()

    def search(state: State, pending: tuple[int, ...]) -> State | None:
        """Continue. pending: the number of the next call of each client."""
        if (pending, repr(state)) in tried:
            return None
        tried.add((pending, repr(state)))
        left = [calls[number:] for calls, number in zip(clients, pending, strict=True)]
        for client, call in _next_calls(left):
            rest = (*pending[:client], pending[client] + 1, *pending[client + 1 :])
            after = state.after(call)
            if after is state:  # so it need not be tried later
                return search(state, rest)
            if after and (found := search(after, rest)):
                return found
        return None if any(left) else state

    return search(state, (0,) * len(clients))


def _next_calls(left: Sequence[Sequence[Call]]) -> list[tuple[int, Call]]:
    """Return the calls of clients that can be next, the likeliest first."""
    heads = [(client, calls[0]) for client, calls in enumerate(left) if calls]
    first_end = min((call.end for _, call in heads), default=0.0)
    versions: dict[Identity | None, int] = {}
    for call in chain.from_iterable(left):
        if call.version:
            lowest = versions.get(call.request.target, call.version)
            versions[call.request.target] = min(lowest, call.version)
    possible = [
        (client, call)
        for client, call in heads
        if call.start <= first_end
        and not (call.version and call.version > versions[call.request.target])
    ]
    # Those that only read or fail change nothing, so that no order of them has to be tried.
    return sorted(possible, key=lambda pair: (bool(pair[1].request.writes), pair[1].end))

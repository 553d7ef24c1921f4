"""The service in plain Python: persons and computers in dicts, and the documents that show them."""

import json
import operator
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

SCALE = int(os.environ.get("CONSISTENCY_SCALE", "1"))
"""The factor of the number of steps and requests."""

Identity = tuple[str, int]
"""The type and the id of a resource."""

Followed = Mapping[Identity, Mapping[str, int | None]]
"""The relationships that include paths follow from each resource, with their sizes."""

ATTRIBUTES = {"person": ("first_name", "last_name", "full_name", "email"), "computer": ("serial",)}
RELATIONSHIPS = {"person": "computers", "computer": "owner"}
"""The only relationship of each type."""

TARGETS = {"computers": "computer", "owner": "person"}
JSONAPI = {"version": "1.0"}


Condition = Mapping[str, Any]
"""A condition in the JSON notation of `filter`."""


@dataclass(frozen=True)
class Query:
    """The parameters of one request.

    include: paths; None if the parameter is not sent. sizes: the number of members to include, by
    path. counts: paths to relationships whose members are counted. sort: names, with `-` for
    descending. search: words. conditions: sent as `filter[name][op]`. combined: sent as JSON. page:
    the members of `page`.
    """

    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    include: tuple[str, ...] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    counts: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    combined: tuple[Condition, ...] = ()
    page: Mapping[str, int | str] = field(default_factory=dict)

    def url(self, path: str, page: Mapping[str, int | str] | None = None) -> str:
        """Return the path with these parameters. page: replaces the members of `page`."""
        parameters = [(f"fields[{name}]", ",".join(names)) for name, names in self.fields.items()]
        if self.include is not None:
            parameters.append(("include", ",".join(self.include)))
        parameters += [(f"page[{name}][size]", str(size)) for name, size in self.sizes.items()]
        if self.counts:
            parameters.append(("withCount", ",".join(self.counts)))
        if self.sort:
            parameters.append(("sort", ",".join(self.sort)))
        if self.search:
            parameters.append(("filter[search]", " ".join(self.search)))
        parameters += map(_bracketed, self.conditions)
        if self.combined:
            parameters.append(("filter", json.dumps(self.combined, ensure_ascii=False)))
        members = self.page if page is None else page
        parameters += [(f"page[{name}]", str(value)) for name, value in members.items()]
        text = urlencode(parameters, quote_via=quote, safe="")
        return f"{path}?{text}" if text else path


def _bracketed(condition: Condition) -> tuple[str, str]:
    name, operator, value = condition["name"], condition["op"], condition["val"]
    values = value if isinstance(value, list) else [value]
    return f"filter[{name}][{operator}]", ",".join(map(_as_text, values))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def resource_path(identity: Identity) -> str:
    return f"/{identity[0]}s/{identity[1]}"


def identifier(identity: Identity) -> dict[str, str]:
    return {"type": identity[0], "id": str(identity[1])}


def linkage_to(type_name: str, targets: Sequence[int]) -> dict[str, Any]:
    """Return the linkage of a resource of this type to others."""
    identifiers = [identifier((TARGETS[RELATIONSHIPS[type_name]], id_)) for id_ in targets]
    return {"data": identifiers if type_name == "person" else next(iter(identifiers), None)}


def body_of(
    identity: Identity, attributes: Mapping[str, Any], linkage: Sequence[int] | None
) -> dict[str, Any]:
    """Return a document with a resource object. linkage: None without relationships."""
    data: dict[str, Any] = {**identifier(identity), "attributes": dict(attributes)}
    if linkage is not None:
        name = RELATIONSHIPS[identity[0]]
        data["relationships"] = {name: linkage_to(identity[0], linkage)}
    return {"data": data}


class Revision(NamedTuple):
    """What a request has done with a resource, as a resource object shows it."""

    action: str
    before: dict[str, Any]
    after: dict[str, Any]


def _with_identifier(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with the resource identifier of the owner in place of the id."""
    owner = values.get("owner")
    return values if owner is None else values | {"owner": identifier(("person", owner))}


class Model:
    """The resources, their links, their versions and their revisions.

    A version says whether a resource or its links have changed; its number has no meaning.
    revisions: of each resource, from the oldest to the newest.
    """

    def __init__(self) -> None:
        self.resources: dict[Identity, dict[str, Any]] = {}
        self.owners: dict[int, int | None] = {}
        self.versions: dict[Identity, int] = defaultdict(int)
        self.used: set[Identity] = set()
        self.revisions: dict[Identity, list[Revision]] = defaultdict(list)
        self._revised: dict[Identity, dict[str, Any]] = {}  # the values that revisions have told

    def copy(self) -> "Model":
        """Return a model that changes without this one."""
        copied = Model()
        copied.resources |= self.resources
        copied.owners |= self.owners
        copied.versions |= self.versions
        copied.used |= self.used
        copied.revisions |= {identity: [*own] for identity, own in self.revisions.items()}
        copied._revised = self._revised
        return copied

    def ids(self, type_name: str) -> list[int]:
        return sorted(id_ for name, id_ in self.resources if name == type_name)

    def members(self, identity: Identity) -> list[Identity]:
        """Return the resources that a resource is linked to, by id."""
        type_name, id_ = identity
        if type_name == "computer":
            owner = self.owners[id_]
            return [] if owner is None else [("person", owner)]
        return [("computer", item) for item, owner in sorted(self.owners.items()) if owner == id_]

    # Writes

    def holder(self, attributes: Mapping[str, Any]) -> Identity | None:
        """Return the person who has the e-mail address, which is unique."""
        email = str(attributes.get("email")).lower()
        persons = [resource for resource in self.resources.items() if resource[0][0] == "person"]
        holders = (item for item, values in persons if str(values["email"]).lower() == email)
        return next(holders, None) if attributes.get("email") else None

    def create(self, identity: Identity, attributes: Mapping[str, Any]) -> None:
        """Add a resource without links, under an id that no resource had before."""
        type_name, id_ = identity
        assert identity not in self.used
        self.used.add(identity)
        defaults = {"email": None} if type_name == "person" else {}
        self.resources[identity] = defaults | dict(attributes)
        if type_name == "computer":
            self.owners[id_] = None

    def update(self, identity: Identity, attributes: Mapping[str, Any]) -> None:
        before = self.resources[identity]
        if before != before | dict(attributes):
            self.resources[identity] = before | dict(attributes)
            self.versions[identity] += 1

    def replace(self, identity: Identity, targets: Iterable[int]) -> None:
        """Replace the linkage of a resource; computers that somebody else owns move."""
        type_name, id_ = identity
        if type_name == "computer":
            self._set_owner(id_, next(iter(targets), None))
            return
        members = set(targets)
        self.remove(identity, {item for _, item in self.members(identity)} - members)
        self.add(identity, members)

    def add(self, identity: Identity, computers: Iterable[int]) -> None:
        for computer in computers:
            self._set_owner(computer, identity[1])

    def remove(self, identity: Identity, computers: Iterable[int]) -> None:
        for computer in computers:
            if self.owners.get(computer) == identity[1]:
                self._set_owner(computer, None)

    def delete(self, identity: Identity) -> None:
        """Delete a resource and the links to it."""
        type_name, id_ = identity
        self.replace(identity, ())
        del self.resources[identity]
        if type_name == "computer":
            del self.owners[id_]

    def _set_owner(self, computer: int, owner: int | None) -> None:
        previous = self.owners[computer]
        if owner != previous:
            self.owners[computer] = owner
            changed = [("computer", computer), ("person", previous), ("person", owner)]
            for identity in changed:
                if identity[1] is not None:
                    self.versions[identity[0], identity[1]] += 1

    def revise(self) -> dict[Identity, Revision]:
        """Add a revision of each resource that has changed since the last call; return them."""
        before, after = self._revised, {key: self._values(key) for key in self.resources}
        added: dict[Identity, Revision] = {}
        for key in before.keys() | after.keys():
            old, new = before.get(key, {}), after.get(key, {})
            if old != new:
                action = "updated" if old and new else "created" if new else "deleted"
                changed = dict(old.items() - new.items()), dict(new.items() - old.items())
                added[key] = Revision(action, *map(_with_identifier, changed))
                self.revisions[key].append(added[key])
        self._revised = after
        return added

    def _values(self, identity: Identity) -> dict[str, Any]:
        """Return the attributes of a resource and its owner, without those that are null."""
        values = dict(self.resources[identity])
        if identity[0] == "computer":
            values["owner"] = self.owners[identity[1]]
        return {name: value for name, value in values.items() if value is not None}

    # Collections

    def select(self, type_name: str, query: Query, ids: Iterable[int] | None = None) -> list[int]:
        """Return the ids of a collection, filtered and sorted. ids: of related resources."""
        names = [name for name in ATTRIBUTES[type_name] if name != "full_name"]
        searched = [
            {"or": [{"name": name, "op": "contains", "val": word} for name in names]}
            for word in query.search
        ]
        conditions = {"and": [*query.conditions, *query.combined, *searched]}
        candidates = self.ids(type_name) if ids is None else ids
        selected = [id_ for id_ in candidates if self._matches((type_name, id_), conditions)]
        last = query.sort[-1] if query.sort else ""
        sign = "-" if last.startswith("-") else ""
        ties = [f"{sign}owner.id"] if "." in last else []
        for name in reversed([*query.sort, *ties, f"{sign}id"]):
            key = name.removeprefix("-")
            values = {id_: self.value((type_name, id_), key) for id_ in selected}
            selected.sort(
                key=lambda id_: (values[id_] is not None, values[id_]),
                reverse=name.startswith("-"),
            )
        return selected

    def value(self, identity: Identity, name: str) -> Any:
        """Return the value of a field; of the owner's field for `owner.last_name`."""
        _, id_ = identity
        relationship, _, field_name = name.rpartition(".")
        if relationship:
            owner = self.owners[id_]
            return None if owner is None else self.value(("person", owner), field_name)
        if name == "id":
            return id_
        if name == "owner":
            return self.owners[id_]
        return self.attributes(identity)[name]

    def attributes(self, identity: Identity) -> dict[str, Any]:
        values = self.resources[identity]
        if identity[0] == "person":
            return values | {"full_name": f"{values['first_name']} {values['last_name']}"}
        return values

    def _matches(self, identity: Identity, condition: Condition) -> bool:
        if "and" in condition:
            return all(self._matches(identity, part) for part in condition["and"])
        if "or" in condition:
            return any(self._matches(identity, part) for part in condition["or"])
        if "not" in condition:
            return not self._matches(identity, condition["not"])
        if condition["op"] in {"has", "any"}:
            return any(self._matches(member, condition["val"]) for member in self.members(identity))
        relationship, _, field_name = condition["name"].rpartition(".")
        if relationship:
            compared = {**condition, "name": field_name}
            return any(self._matches(member, compared) for member in self.members(identity))
        value = self.value(identity, condition["name"])
        return _compare(value, condition["op"], condition["val"])

    # Documents

    def follow(self, primary: Sequence[Identity], query: Query) -> tuple[Followed, set[Identity]]:
        """Return the relationships that the include paths follow, and the resources reached."""
        followed: dict[Identity, dict[str, int | None]] = defaultdict(dict)
        reached: set[Identity] = set()
        for path in query.include or ():
            level, steps = list(primary), path.split(".")
            for count, name in enumerate(steps, 1):
                size = query.sizes.get(".".join(steps[:count]))
                for identity in level:
                    followed[identity][name] = size
                level = [member for identity in level for member in self.members(identity)[:size]]
                reached.update(level)
        return followed, reached

    def resource_object(
        self, identity: Identity, query: Query, followed: Followed, shown: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return a resource object. shown: the attributes, unless the query names them."""
        type_name, _ = identity
        names = query.fields.get(type_name, shown or ATTRIBUTES[type_name])
        values = self.attributes(identity)
        path, linkage = resource_path(identity), followed.get(identity, {})
        relationships = {
            name: {
                "data": self.linkage(identity, size),
                "links": {"self": f"{path}/relationships/{name}", "related": f"{path}/{name}"},
            }
            for name, size in linkage.items()
        }
        if type_name == "person" and query.counts:  # of `computers`, whichever path leads there
            links = {"self": f"{path}/relationships/computers", "related": f"{path}/computers"}
            counted = {"links": links, "meta": {"count": len(self.members(identity))}}
            relationships["computers"] = {**relationships.get("computers", {}), **counted}
        return {
            **identifier(identity),
            "attributes": {name: values[name] for name in names if name in values},
            "links": {"self": path},
            **({"relationships": relationships} if relationships else {}),
        }

    def linkage(self, identity: Identity, size: int | None = None) -> Any:
        """Return resource linkage, of the first members if there is a size."""
        members = [identifier(member) for member in self.members(identity)[:size]]
        return members if identity[0] == "person" else next(iter(members), None)

    def document(
        self, primary: Sequence[Identity], query: Query, links: Mapping[str, Any], *, many: bool
    ) -> dict[str, Any]:
        """Return a document whose primary data are resources, or one or null if not many."""
        followed, reached = self.follow(primary, query)
        objects = [self.resource_object(resource, query, followed) for resource in primary]
        included = self._included(reached - {*primary}, query, followed)
        data: Any = objects if many else next(iter(objects), None)
        return {"data": data, **included, "jsonapi": JSONAPI, "links": links}

    def linkage_document(
        self, start: Identity, page: Sequence[Identity], query: Query, links: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return a document of resource linkage; include paths start with the relationship."""
        name = RELATIONSHIPS[start[0]]
        paths = [path.removeprefix(name).removeprefix(".") for path in query.include or ()]
        rest = Query(query.fields, tuple(path for path in paths if path))
        followed, reached = self.follow(page, rest)
        included = self._included(reached | {*page} if query.include else (), query, followed)
        members = [identifier(resource) for resource in page]
        data: Any = members if start[0] == "person" else next(iter(members), None)
        return {"data": data, **included, "jsonapi": JSONAPI, "links": links}

    def _included(
        self, identities: Iterable[Identity], query: Query, followed: Followed
    ) -> dict[str, Any]:
        if query.include is None:
            return {}
        return {
            "included": [
                self.resource_object(identity, query, followed) for identity in sorted(identities)
            ]
        }


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "null": lambda value, expected: (value is None) == expected,
    "eq": operator.eq,
    "ne": operator.ne,
    "in": lambda value, operands: value in operands,
}

_OPERATORS_OF_VALUES: Mapping[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "prefix": str.startswith,
    "contains": lambda value, part: part.lower() in value.lower(),
}
"""Operators that null never satisfies."""


def _compare(value: Any, name: str, operand: Any) -> bool:
    if name in _OPERATORS:
        return _OPERATORS[name](value, operand)
    return value is not None and _OPERATORS_OF_VALUES[name](value, operand)

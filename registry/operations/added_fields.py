"""What a file of types declares in addition: checks that stored records fit, and completes them.

Removed declarations are hidden, and their data stay. The counter of a type keeps everything ever
declared: `{declared: {<name>: its form}, hidden: [<names>], collection}`. All services of a
database declare the same: each holds a lease for its declarations.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pymongo
from marshmallow import missing
from pymongo.errors import PyMongoError

from registry.jsonapi.error_objects import RequestError
from registry.model.fields import Enumeration
from registry.model.graph import Graph, tracked_links
from registry.model.record import ID, Record
from registry.model.resource_type import DeclarationPath, Link, ResourceType
from registry.operations.consistency import Report, RuleReport, check
from registry.operations.rules import PeriodsAreRight, RecordsAreValid, Rule, TargetsExist
from registry.program import StartError
from registry.resources.types_file import TypesFile, history_type
from registry.storage.mongo.mongo_client import Database, SnapshotExpired, require_complete
from registry.storage.schema import complete, drop_index, prepare_unique_indexes, prepare_validators

_DECLARED, _HIDDEN, _COLLECTION = "declared", "hidden", "collection"

_LINK = "link"
"""The start of the form of a link."""

_SECONDS = 3_600.0
"""The time limit of an update of all records."""

_MAX_IDS = 5

SERVICES = "services"
"""The collection with a document for each lease: `{_id, digest, until}`."""

LEASE_SECONDS = 30
"""How long a process that was killed, or cannot reach the database, still counts."""

_RENEWAL_SECONDS = 10.0

_CLOSE_SECONDS = 1.0


class AddedFields:
    """The attributes and links that a file of types declares, and those of earlier starts.

    Several processes may complete the same records. types: the file, None without one.
    """

    def __init__(self, database: Database, graph: Graph, types: TypesFile | None) -> None:
        self._database = database
        self._graph = graph
        self._types = types
        self._known: dict[str, Record] = {}

    async def prepare(self) -> None:
        """Complete stored records, unless the last start has declared the same.

        Raises StartError, before any record is changed, with the number and ids of records that do
        not fit, or with values that must be unique and are not. Also raises PyMongoError.
        """
        found = self._database.counters.find({_DECLARED: {"$exists": True}})
        self._known = {one[ID]: one async for one in found}
        self._require_free_names()
        if self._declarations():
            await require_complete(self._database)
            await self._require_fit()
            await prepare_validators(self._database, self._graph)
            # They may be refused as well; what has a default is not unique.
            await prepare_unique_indexes(self._database, self._graph)
            await self._complete()
            for type_name, note in self._declarations().items():
                counters, query = self._database.counters, {ID: type_name}
                await counters.update_one(query, {"$set": note}, upsert=True)

    def _require_free_names(self) -> None:
        """Raise StartError if something has a name under which a hidden link is stored."""
        links = [
            (type_name, Link(name, form[1], name, inverse=""))
            for type_name, known in self._known.items()
            for name, form in known[_DECLARED].items()
            if name in known[_HIDDEN] and form[0] == _LINK
        ]
        for type_name, link in links:
            for path in self._paths_named_as(type_name, link):
                place = f"{self._types.place(path)}: " if self._types else ""
                hidden = f"the hidden link {type_name}.{link.name} is stored under this name"
                raise StartError(f"{place}{'.'.join(path)}: {hidden}: choose another")

    def _paths_named_as(self, type_name: str, link: Link) -> Iterator[DeclarationPath]:
        """Yield the paths of declarations with the name of a link's history or stored field."""
        periods = history_type(type_name, link.name)
        for resource in self._graph.writable:
            if resource.type == periods:
                yield (periods,)
            if resource.collection == f"{periods}s":
                yield resource.type, "collection"
            if resource.type == type_name:
                for field in sorted(resource.added & {link.period_field, link.changed_field}):
                    yield type_name, field

    async def _require_fit(self) -> None:
        rules = [rule for one in self._to_complete() for rule in self._fit_rules(*one)]
        report = await self._run_rules(rules) if rules else Report({}, ())
        pairs = zip(rules, report.rules, strict=True)
        reasons = [rule.describe(found) for rule, found in pairs if found.total]
        for name, known in self._known.items():
            former = known[_COLLECTION]
            is_other = any(
                (one.type == name) != (one.collection == former) for one in self._graph.values()
            )
            if is_other and await self._database[former].find_one({}, [ID]):
                reasons.append(f"the collection of {name} is {former}, which has records")
        if reasons:
            remedy = "declare it as before or under another name, or change the resources first"
            raise StartError(f"{'; '.join(reasons)}; {remedy}")

    def _fit_rules(self, resource: ResourceType, name: str) -> Iterator["ValuesFit"]:
        form = self._forms(resource).get(name)
        yield ValuesFit(self._database, resource, name, form)
        if form and form[0] == _LINK and form != _form(resource, name):
            # The periods of the link have its target in a field of the same name, and stay.
            type_name = history_type(resource.type, name)
            periods = replace(resource, type=type_name, collection=f"{type_name}s")
            yield ValuesFit(self._database, periods, name, form)

    async def _complete(self) -> None:
        """Store the defaults of what is new, remove links that lost their targets while hidden."""
        returned = list[Rule]()
        for resource, name in self._to_complete():
            links = [link for link in resource.links if link.name == name]
            if name in self._hidden(resource):
                returned += (rule for link in links for rule in self._link_rules(resource, link))
            if not links:
                await self._complete_attribute(resource, name)
        if returned:
            await self._run_rules(returned, repair=True)
        for resource in self._graph.writable:
            await self._drop_hidden_indexes(resource)

    def _forms(self, resource: ResourceType) -> Mapping[str, Any]:
        """Return the forms that earlier starts have declared."""
        return self._known.get(resource.type, Record()).get(_DECLARED) or {}

    def _hidden(self, resource: ResourceType) -> Sequence[str]:
        return self._known.get(resource.type, Record()).get(_HIDDEN) or ()

    def _to_complete(self) -> Iterator[tuple[ResourceType, str]]:
        """Yield what the last start has not declared, or not in this form."""
        for resource in self._graph.writable:
            for name in sorted(resource.added):
                is_known = self._forms(resource).get(name) == _form(resource, name)
                if not is_known or name in self._hidden(resource):
                    yield resource, name

    async def _run_rules(self, rules: Sequence[Rule], *, repair: bool = False) -> Report:
        try:
            return await check(self._database, self._graph, repair=repair, rules=rules)
        except (SnapshotExpired, RequestError) as error:
            raise StartError(f"cannot check what --types declares: {error}") from error

    def _link_rules(self, resource: ResourceType, link: Link) -> Iterator[Rule]:
        yield TargetsExist(self._database, resource, link, self._graph)
        for tracked in tracked_links(self._graph):
            if tracked.link is link:
                yield PeriodsAreRight(self._database, tracked, self._graph)

    async def _complete_attribute(self, resource: ResourceType, name: str) -> None:
        attribute, collection = resource.attributes[name], self._database[resource.collection]
        if attribute.default not in (None, missing):
            with pymongo.timeout(_SECONDS):
                absent = ["missing"] if attribute.nullable else ["missing", "null"]
                lacking = {"$expr": {"$in": [{"$type": f"${name}"}, absent]}}
                default = {name: {"$literal": attribute.default}}
                await complete(collection, lacking, [{"$set": default}])

    async def _drop_hidden_indexes(self, resource: ResourceType) -> None:
        """Drop the indexes of what is no longer declared: their number is limited."""
        for name in self._forms(resource).keys() - resource.added - {*self._hidden(resource)}:
            await drop_index(self._database[resource.collection], f"{name}_1_{ID}_1")

    def _declarations(self) -> dict[str, Record]:
        """Return what to note in the counters of types, where that has changed."""
        own = {one.type: one for one in self._graph.writable if one.added}
        notes: dict[str, Record] = {}
        for type_name in own.keys() | self._known.keys():
            resource, known = own.get(type_name), self._known.get(type_name, {})
            forms = {name: _form(resource, name) for name in resource.added} if resource else {}
            declared = known.get(_DECLARED, {}) | forms
            note: Record = {_DECLARED: declared, _HIDDEN: sorted(declared.keys() - forms.keys())}
            if resource:
                note[_COLLECTION] = resource.collection
            if note != {name: known.get(name) for name in note}:
                notes[type_name] = note
        return notes


class ValuesFit(RecordsAreValid):
    """The stored values of an attribute or link fit its declaration.

    form: of an earlier declaration, if there was one.
    """

    def __init__(self, database: Database, resource: ResourceType, name: str, form: Any) -> None:
        attribute = resource.record_attributes[name]
        is_needed = attribute.required and not attribute.nullable
        super().__init__(database, resource, (name,), {} if is_needed else {name: {"$ne": None}})
        self._name = name
        new = _form(resource, name)
        self._former = ""
        if form and form != new and _LINK in {form[0], new[0]}:
            self._former = f"it leads to a {form[1]}" if form[0] == _LINK else "it is not a link"

    def defect(self, record: Record) -> str:
        """Return why the value of a record does not fit; empty if it does."""
        if self._former and record.get(self._name) is not None:
            return self._former
        return super().defect(record)

    def describe(self, found: RuleReport) -> str:
        """Return the number of violations, the first ids and the reason of the first, in a line."""
        ids = ", ".join(str(one.id) for one in found.listed[:_MAX_IDS])
        more = f" and {found.total - _MAX_IDS:,} more" if found.total > _MAX_IDS else ""
        resource = self._resource
        name = resource.type if found.total == 1 else resource.collection
        stored = f"the stored values of {found.total:,} {name} (ids {ids}{more})"
        reason = found.listed[0].reason.rstrip(".")
        return f"{resource.type}.{self._name} does not fit {stored}: {reason}"


def _form(resource: ResourceType, name: str) -> list[Any]:
    """Return what decides which stored values fit an attribute or link."""
    for link in resource.links:
        if link.name == name:
            return [_LINK, link.target]
    attribute = resource.attributes[name].field
    values = attribute.values if isinstance(attribute, Enumeration) else ()
    return [type(attribute).__name__, attribute.allow_none, *sorted(values)]


@asynccontextmanager
async def types_lease(database: Database, digest: str) -> AsyncIterator[None]:
    """Hold a lease for the declared types with a digest.

    Raises StartError if another process holds one for other types; also PyMongoError.
    """
    services, id_ = database[SERVICES], uuid4().hex
    until = {"$add": ["$$NOW", LEASE_SECONDS * 1_000]}  # by the clock of the server

    async def renew() -> None:
        await services.update_one(
            {"_id": id_}, [{"$set": {"digest": digest, "until": until}}], upsert=True
        )

    async def keep() -> None:
        while True:
            await asyncio.sleep(_RENEWAL_SECONDS)
            with suppress(PyMongoError):  # it is renewed as soon as that is possible again
                await renew()

    # Stored first: of two that start at the same time, at least one finds the other.
    await renew()
    keeping = asyncio.create_task(keep())
    try:
        await services.delete_many({"$expr": {"$lt": ["$until", "$$NOW"]}})
        if other := await services.find_one({"digest": {"$ne": digest}}):
            raise StartError(
                f"a service of this database declares other types (digest {other['digest']}) than "
                f"this one (digest {digest}): give all the same file with --types or "
                "REGISTRY_TYPES, or stop it first; one that was killed counts for "
                f"{LEASE_SECONDS} s"
            )
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        with suppress(PyMongoError, TimeoutError), pymongo.timeout(_CLOSE_SECONDS):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await services.delete_one({"_id": id_})

"""The graph -> consistent example documents: the resources with the id 1, all linked."""

from collections.abc import Collection

import orjson

from registry.csv_format import CsvTable
from registry.http.addresses import CHANGES_PATH
from registry.jsonapi.change_events import Audience, ChangedRecord, encode_commit
from registry.jsonapi.changes import Verb
from registry.jsonapi.documents import (
    JSONAPI,
    PLAIN,
    Compound,
    encode_document,
    path_of,
    relationship_links,
    resource_objects,
)
from registry.jsonapi.query import Query
from registry.model.attribute_schemas import example_of
from registry.model.graph import Graph
from registry.model.implicit_attributes import PrincipalName, StoredTime
from registry.model.record import LinkedIds, Record
from registry.model.resource_type import Relationship, ResourceType, client_names
from registry.openapi.schemas import Json, absolute
from registry.protocol import OPERATIONS, RESULTS

POSITION = "AWsD3sUAAAA1TkP-7O_NJ_P0"


REPORT = (
    '{"meta": {"rows": 1, "created": {}, "updated": {}, "unchanged": {"person": 1}, "invalid": 0, '
    '"complete": true}}\n'
)
"""The report of the import of a file."""


def creation(resource_type: ResourceType) -> Json:
    """Return the document that creates the resource."""
    return {"data": _new(resource_type, resource_type.writable)}


def update(resource_type: ResourceType) -> Json:
    """Return a document that changes one attribute."""
    return {"data": _new(resource_type, [*resource_type.writable][:1], id="1")}


def plain(resource_type: ResourceType, graph: Graph, *, created: bool = False) -> Json:
    """Return the resource without `include`. created: as in the response to `creation`."""
    shown = {resource_type.type: resource_type.writable.keys()} if created else {}
    return _encoded(resource_type, graph, Query(fields=shown))


def included(resource_type: ResourceType, graph: Graph) -> Json:
    """Return the resource with all its related resources."""
    relationships = resource_type.relationships.values()
    linkage: dict[str, dict[int, LinkedIds]] = {
        relationship.name: {1: [1] if relationship.to_many else 1} for relationship in relationships
    }
    targets = {relationship.target for relationship in relationships} - {resource_type.type}
    records = {name: [_record(graph[name])] for name in graph if name in targets}
    return _encoded(resource_type, graph, Query(), Compound({resource_type.type: linkage}, records))


def collections(resource_type: ResourceType, graph: Graph, url: str) -> Json:
    """Return the collection at a URL with only the resource: plain, with `include`, and a page."""
    alone, number = plain(resource_type, graph), f"{url}?page%5Bnumber%5D=1&page%5Bsize%5D=10"
    pages = {"first": number, "last": number, "prev": None, "next": None}
    include = f"{url}?include={','.join(client_names(resource_type.relationships))}"
    shown: dict[str, tuple[Json, Json, Json]] = {
        "plain": (alone, {"self": url}, {}),
        "included": (included(resource_type, graph), {"self": include}, {}),
        "page": (alone, {"self": number, **pages}, {"total": 1}),
    }
    return {
        name: {**document, "data": [document["data"]], "links": links, "meta": {"count": 1, **meta}}
        for name, (document, links, meta) in shown.items()
    }


def table(resource_type: ResourceType, graph: Graph) -> str:
    """Return the collection with only the resource as CSV, without the byte order mark."""
    shown = CsvTable(Query(), resource_type, graph)
    return (shown.header + shown.encode([_record(resource_type)], PLAIN)).decode("utf-8-sig")


def linkage_document(resource_type: ResourceType, relationship: Relationship) -> Json:
    """Return the linkage of a relationship."""
    links = relationship_links(resource_type, 1, relationship.name)
    document = {"data": linkage(relationship), "jsonapi": JSONAPI, "links": links}
    if relationship.to_many:
        links |= {name: absolute(path) for name, path in links.items()}
        document["meta"] = {"count": 1}
    return document


def linkage(relationship: Relationship) -> Json | list[Json]:
    """Return resource linkage."""
    identifier = {"type": relationship.target, "id": "1"}
    return [identifier] if relationship.to_many else identifier


def operations(graph: Graph) -> Json:
    """Return a document that adds a resource of each type, and links them."""
    added = [
        _new(resource_type, resource_type.writable) | _local(resource_type.type)
        for resource_type in graph.writable
    ]
    members: list[Json] = [{"op": "add", "data": data} for data in added]
    for resource_type in graph.writable:
        for link in resource_type.links:
            ref = {**_local(resource_type.type), "relationship": link.name}
            members.append({"op": "update", "ref": ref, "data": _local(link.target)})
    return {OPERATIONS: members}


def results(graph: Graph) -> Json:
    """Return the response to `operations`."""
    added = [
        {"data": plain(resource_type, graph, created=True)["data"]}
        for resource_type in graph.writable
    ]
    linked: list[Json] = [{} for resource_type in graph.writable for _ in resource_type.links]
    return {RESULTS: added + linked, "jsonapi": JSONAPI}


def positions() -> Json:
    """Return the document of the change feed."""
    links = {"self": absolute(CHANGES_PATH)}
    return {"jsonapi": JSONAPI, "links": links, "meta": {"position": POSITION, "oldest": POSITION}}


def events(graph: Graph) -> str:
    """Return the events of a transaction that adds a resource of each type."""
    types, time, author = frozenset(graph), StoredTime.kind.example, PrincipalName.kind.example
    changes = [
        ChangedRecord(Verb.ADD, resource_type, 1, _record(resource_type), time, author)
        for resource_type in graph.writable
    ]
    return encode_commit(changes, POSITION, Audience(types, types)).decode()


def _local(type_name: str) -> Json:
    return {"type": type_name, "lid": f"new-{type_name}"}


def _new(resource_type: ResourceType, names: Collection[str], **identity: str) -> Json:
    attributes = _attributes(resource_type, names)
    return {"type": resource_type.type, **identity, "attributes": attributes}


def _attributes(resource_type: ResourceType, names: Collection[str]) -> Json:
    attributes = {**resource_type.attributes, **resource_type.writable}
    return {name: example_of(attribute) for name, attribute in attributes.items() if name in names}


def _record(resource_type: ResourceType) -> Record:
    examples = _attributes(resource_type, resource_type.attributes)
    stored = {
        name: None if value is None else attribute.from_json(value)
        for name, value in examples.items()
        for attribute in [resource_type.attributes[name]]
    }
    return {"_id": 1, **stored, **{link.foreign_key: 1 for link in resource_type.links}}


def _encoded(
    resource_type: ResourceType, graph: Graph, query: Query, compound: Compound = PLAIN
) -> Json:
    """Return the document of the resource as the service encodes it."""
    (data,) = resource_objects(resource_type, [_record(resource_type)], compound.linkage, query)
    links = {"self": path_of(resource_type, 1)}
    document: Json = orjson.loads(encode_document(data, compound, query, graph, links))
    return document

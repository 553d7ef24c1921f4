"""Stored records -> resource objects, relationships and links (JSON:API 1.0, Document Structure).

They are joined from text: building all of them as dicts and serializing these would take 22 % more
CPU for a page of 50 computers with their owners, and 26 % more for a list of 10,000 persons.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from typing import TypeAlias

import orjson

from registry.jsonapi.pagination import BY_ID, CursorPage, Cursors, Window, page_links
from registry.jsonapi.query import Query
from registry.jsonapi.visible_revisions import visible_values
from registry.model.fieldset import fieldset
from registry.model.record import FirstPage, LinkedIds, Record, StreamedIds, ids_in
from registry.model.resource_type import Relationship, ResourceType
from registry.model.revisions import subject_of

_NOT_SHOWN: LinkedIds = []
"""Stands for the linkage of a resource whose relationship is not shown."""

STREAMED = "\0"
"""Stands for identifiers that are encoded while they are read: JSON has no such character."""


Linked: TypeAlias = Mapping[str, Mapping[str, Mapping[int, LinkedIds]]]
"""The ids that resources show as linked, by type, name of the relationship and id."""


def path_of(resource: ResourceType, *segments: int | str) -> str:
    """Return the path of a collection, or one below it: `/persons`, `/persons/1/computers`."""
    return "/".join(("", resource.collection, *map(str, segments)))


def relationship_links(resource: ResourceType, identifier: int | str, name: str) -> dict[str, str]:
    """Return the links of a relationship object, `self` and `related`."""
    path = f"/{resource.collection}/{identifier}"
    return {"self": f"{path}/relationships/{name}", "related": f"{path}/{name}"}


def resource_objects(
    resource: ResourceType,
    records: Sequence[Record],
    linkage: Linked,
    query: Query,
) -> list[str]:
    """Return the resource objects of records (JSON:API 1.0, Resource Objects).

    A resource shows only the relationships whose members are counted, and those for which there is
    an entry with its id. The periods of a history show the ends of their link, also if these are
    deleted.
    """
    linked = linkage.get(resource.type, {})
    shown_links: list[list[str]] = []
    if resource.subject:
        shown_names = query.fields.get(resource.type, {resource.subject})
        if linked or resource.subject in shown_names:
            shown_links.append(_subjects(resource, records))
        linked = {}
    elif resource.read_only:
        names = {*query.fields.get(resource.type, resource.relationships), *linked}
        linked = {**linked, **_own_linkage(resource, records, names)}
    visible = visible_values(resource, records, query)
    dumped = fieldset(resource, query.shown(resource)).dump_all(visible)
    start = f'{{"type":"{resource.type}","id":"'
    end = f'"links":{{"self":"/{resource.collection}/'
    counted = {
        name: resource.member_counts(name, records) for name in query.counts.get(resource.type, ())
    }
    if not (shown_links or linked or counted):
        return [
            f'{start}{(id_ := record["_id"])}","attributes":{orjson.dumps(shown).decode()},'
            f'{end}{id_}"}}}}'
            for record, shown in zip(records, dumped, strict=True)
        ]
    ids = [record["_id"] for record in records]
    shown_links += [
        _relationships(resource, name, linked.get(name, {}), counted.get(name), ids)
        for name in {**linked, **counted}
    ]
    members = (
        shown_links[0] if len(shown_links) == 1 else map(_joined, zip(*shown_links, strict=True))
    )
    texts = [orjson.dumps(attributes).decode() for attributes in dumped]
    return [
        f'{start}{id_}","attributes":{text},"relationships":{{{shown}}},{end}{id_}"}}}}'
        if shown
        else f'{start}{id_}","attributes":{text},{end}{id_}"}}}}'
        for id_, text, shown in zip(ids, texts, members, strict=True)
    ]


def _joined(members: Iterable[str]) -> str:
    return ",".join(filter(None, members))


def _subjects(resource: ResourceType, records: Sequence[Record]) -> list[str]:
    """Return the relationship of each revision to its resource, which may be deleted."""
    members = list[str]()
    for record in records:
        subject = subject_of(resource, record)
        (data,) = identifiers(subject[0], [subject[1]]) if subject else ("null",)
        members.append(f'"{resource.subject}":{{"data":{data}}}')
    return members


def _own_linkage(
    resource: ResourceType, records: Sequence[Record], names: Collection[str]
) -> dict[str, dict[int, LinkedIds]]:
    """Return the to-one linkage of these names that records have themselves."""
    return {
        link.name: {record["_id"]: record.get(link.foreign_key) for record in records}
        for link in resource.links
        if link.name in names
    }


def linkage_of(type_name: str, linked: LinkedIds) -> str:
    """Return the linkage of a to-many relationship to resources of this type."""
    if isinstance(linked, StreamedIds):
        return array([STREAMED])
    return array(identifiers(type_name, ids_in(linked)))


def identifiers(type_name: str, ids: Iterable[int]) -> list[str]:
    """Return resource identifier objects."""
    return [f'{{"type":"{type_name}","id":"{id_}"}}' for id_ in ids]


def array(members: Iterable[str]) -> str:
    """Return a JSON array."""
    return f"[{','.join(members)}]"


def _relationships(
    resource: ResourceType,
    name: str,
    linked: Mapping[int, LinkedIds],
    counts: Sequence[int] | None,
    ids: Sequence[int],
) -> list[str]:
    """Return a relationship as a member of each resource, empty for those that do not show it."""
    relationship = resource.relationships[name]
    target, path = relationship.target, path_of(resource)
    if relationship.to_many:
        return _to_many(relationship, path, linked, counts, ids)
    start, self_link = f'"{name}":{{"data":', f',"links":{{"self":"{path}/'
    identifier, null = f'{start}{{"type":"{target}","id":"', f"{start}null{self_link}"
    self_link = f'"}}{self_link}'
    related, end = f'/relationships/{name}","related":"{path}/', f'/{name}"}}}}'
    return [
        ""
        if (to := linked.get(id_, _NOT_SHOWN)) is _NOT_SHOWN
        else f"{null}{id_}{related}{id_}{end}"
        if to is None
        else f"{identifier}{to}{self_link}{id_}{related}{id_}{end}"
        for id_ in ids
    ]


def _to_many(
    relationship: Relationship,
    path: str,
    linked: Mapping[int, LinkedIds],
    counts: Sequence[int] | None,
    ids: Sequence[int],
) -> list[str]:
    """Return a to-many relationship as a member of each resource. path: of the collection."""
    name = relationship.name
    start, end = f'{{"self":"{path}/', f'/{name}"}}'
    related = f'/relationships/{name}","related":"{path}/'
    if counts and not linked:  # in half of the time
        start, end = f'"{name}":{{"links":{start}', f'{end},"meta":{{"count":'
        pairs = zip(ids, counts, strict=True)
        return [f"{start}{id_}{related}{id_}{end}{count}}}}}" for id_, count in pairs]
    members = list[str]()
    for id_, count in zip(ids, counts or repeat(None), strict=False):
        to = linked.get(id_, _NOT_SHOWN)
        links = f"{start}{id_}{related}{id_}{end}"
        if isinstance(to, FirstPage):
            links = _links_of_pages(relationship, to, orjson.loads(links))
        meta = "" if count is None else f',"meta":{{"count":{count}}}'
        if to is not _NOT_SHOWN:
            data = linkage_of(relationship.target, to)
            members.append(f'"{name}":{{"data":{data},"links":{links}{meta}}}')
        else:
            members.append(f'"{name}":{{"links":{links}{meta}}}' if meta else "")
    return members


def _links_of_pages(relationship: Relationship, shown: FirstPage, links: Mapping[str, str]) -> str:
    """Return the links of a relationship of which a page is shown: its own, and those of pages."""
    page = CursorPage(shown.size, Cursors(relationship.target, BY_ID))
    first, last = ((shown.ids[0],), (shown.ids[-1],)) if shown.ids else (None, None)
    window = Window((), shown.more, first, last)
    return orjson.dumps({**links, **page_links(page, window, links["self"])}).decode()

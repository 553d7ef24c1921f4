"""Records -> resource objects as JSON, by a function that is made once for each choice of fields.

What is the same in all objects is written down when the function is made: to build each of them of
mappings, and to serialize those, takes three times as long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, TypeAlias

import orjson

from registry.jsonapi.links import relationship_links, relationship_path, resource_path
from registry.jsonapi.pagination import CursorPage, Cursors, Window, page_links
from registry.jsonapi.sorting import BY_ID
from registry.model.codegen import compiled
from registry.model.record import FirstPage, LinkedIds
from registry.model.resource import Relationship, Resource
from registry.model.serialization import serializer_for

Render: TypeAlias = Callable[..., list[str]]
"""Takes records, and for each relationship to show what that leads to from each, by its id."""

_NUMBER = "@number"
"""Stands for the id in what is made for all objects; no name holds such a sign."""

_MARK = re.compile(r'"@((?:data|links)_\w+|attributes)"|@(number)')


@lru_cache(maxsize=1024)  # bounded, as it is the clients who choose the names
def renderer(
    resource: Resource, attributes: frozenset[str], relationships: tuple[str, ...]
) -> Render:
    """Return what makes resource objects (section 2.3 of the service description).

    attributes: the names of those to show. relationships: the names of those, in their order.
    """
    shown = [resource.relationships[name] for name in relationships]
    lines = [line for relationship in shown for line in _lines(relationship)]
    text = orjson.dumps(_shape(resource, shown)).decode().replace("{", "{{").replace("}", "}}")
    projection, indented = serializer_for(resource, attributes), "\n        "
    source = f"""
def made({", ".join(["records", *(f"of_{name}" for name in relationships)])}):
    objects = []
    for record in records:
        id_ = record["_id"]
        number = f"{{id_}}" if id_.__class__ is int else text_of_id(id_)
        {indented.join([*projection.lines, *lines])}
        objects.append(f'{_MARK.sub(lambda mark: f"{{{mark[1] or mark[2]}}}", text)}')
    return objects
"""
    known = {"text_of_id": text_of_id, "linkage": linkage, "links": partial(_links, resource)}
    return compiled(source, **known, **projection.known)


def linkage(type_name: str, numbers: Iterable[Any]) -> str:
    """Return the linkage of a to-many relationship to resources of this type."""
    return array([identifier(type_name, number) for number in numbers])


def identifier(type_name: str, number: Any) -> str:
    """Return a resource identifier object."""
    return f'{{"type":"{type_name}","id":"{text_of_id(number)}"}}'


def array(members: Iterable[str]) -> str:
    """Return a JSON array."""
    return f"[{','.join(members)}]"


def text_of_id(number: Any) -> str:
    """Return an id as it stands in a JSON string; other tools may have stored what is no number."""
    return str(number) if number.__class__ is int else orjson.dumps(str(number)).decode()[1:-1]


def _shape(resource: Resource, shown: list[Relationship]) -> dict[str, Any]:
    """Return a resource object with marks where each object has something else."""
    relationships = {
        one.name: {
            "data": f"@data_{one.name}",
            "links": f"@links_{one.name}"
            if one.to_many
            else relationship_links(resource, _NUMBER, one.name),
        }
        for one in shown
    }
    return {
        "type": resource.type,
        "id": _NUMBER,
        "attributes": "@attributes",
        **({"relationships": relationships} if shown else {}),
        "links": {"self": resource_path(resource, _NUMBER)},
    }


def _lines(relationship: Relationship) -> list[str]:
    """Return the statements that make what is marked of a relationship."""
    name, target = relationship.name, relationship.target
    if relationship.to_many:
        return [
            f"to = of_{name}[id_]",
            f"data_{name} = linkage({target!r}, to if to.__class__ is list else to.ids)",
            f"links_{name} = links({name!r}, id_, to)",
        ]
    one = f"""f'{{{{"type":"{target}","id":"{{to}}"}}}}'"""
    return [f"to = of_{name}[id_]", f"data_{name} = 'null' if to is None else {one}"]


def _links(resource: Resource, name: str, number: int, linked: LinkedIds) -> str:
    """Return the links of a to-many relationship, which are more when it is shown in part."""
    links: dict[str, str | None] = {**relationship_links(resource, number, name)}
    if isinstance(linked, FirstPage):
        page = CursorPage(linked.size, Cursors(resource.relationships[name].target, BY_ID))
        first, last = ((linked.ids[0],), (linked.ids[-1],)) if linked.ids else (None, None)
        window = Window((), linked.more, first, last)
        links |= page_links(page, window, relationship_path(resource, number, name))
    return orjson.dumps(links).decode()

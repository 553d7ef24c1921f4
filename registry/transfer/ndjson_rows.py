"""NDJSON files: a JSON:API document per line.

Each has a person and, in `included`, the person's computers, as in the response to
`GET /persons/1?include=computers`; or a computer without an owner, or one with its owner, as in
the response to `GET /computers/1?include=owner`. Ids relate the resources of one line; they are not
those of the registry that imports the file. With `{"continues": true}` as its `meta`, a document
has more computers of the person of the line before. Read-only attributes, links, other `meta` and
other members are ignored.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TextIO

import orjson

from registry.resources import RESOURCES
from registry.transfer.lines import TOO_LONG_REASON, Lines, TooLong, encoding_defect
from registry.transfer.rows import COMPUTER, COMPUTERS, OWNER, PERSON, Attributes, InvalidRow, Row

_READ_ONLY = {one.type: one.readable.keys() - one.writable for one in RESOURCES}


def read_ndjson(file: TextIO) -> Iterator[Row | InvalidRow]:
    """Yield the rows. file: as `Lines` takes it. Raises InvalidFile if it is UTF-16."""
    lines, number = Lines(file), 0
    while line := lines.read():
        number += 1
        if isinstance(line, TooLong):
            yield InvalidRow(number, TOO_LONG_REASON)
        elif not line.isspace():
            try:
                yield _parse(number, line)
            except ValueError as error:
                yield InvalidRow(number, str(error))


def write_ndjson(rows: Iterable[Row], file: TextIO) -> None:
    """Write the rows, each with ids of its own."""
    file.writelines(orjson.dumps(_document(row), default=str).decode() + "\n" for row in rows)


def _document(row: Row) -> dict[str, Any]:
    computers = [
        {"type": COMPUTER, "id": str(id_), "attributes": attributes}
        for id_, attributes in enumerate(row.computers, 1)
    ]
    if row.person is None:
        (data,) = computers
        return {"data": data}
    person = {"type": PERSON, "id": "1", "attributes": row.person}
    if not computers:
        return {"data": person}
    linkage = [_identifier(each) for each in computers]
    document = {
        "data": {**person, "relationships": {COMPUTERS: {"data": linkage}}},
        "included": computers,
    }
    return {**document, "meta": {"continues": True}} if row.continues else document


def _parse(number: int, line: str) -> Row:
    """Return the row of a document. Raises ValueError with what is wrong with it."""
    if not line.isascii() and (defect := encoding_defect(line)):
        raise ValueError(defect)
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    match document:
        case {"data": {"type": type_name, "attributes": dict(attributes)} as data}:
            included = _included(document)
        case _:
            raise ValueError("not a document with a resource in `data`")
    if type_name == PERSON:
        computers = _linked(data, COMPUTERS, included, COMPUTER)
        return Row(_writable(PERSON, attributes), computers, number, _continues(document))
    if type_name != COMPUTER:
        raise ValueError(f"the type of the resource is neither {PERSON} nor {COMPUTER}")
    owners = _linked(data, OWNER, included, PERSON)
    return Row(owners[0] if owners else None, [_writable(COMPUTER, attributes)], number)


def _continues(document: dict[str, Any]) -> bool:
    match document:
        case {"meta": {"continues": True}}:
            return True
    return False


def _included(document: dict[str, Any]) -> dict[tuple[Any, Any], Attributes]:
    """Return the attributes of the included resources by type and id. Raises ValueError."""
    resources = document.get("included", [])
    found: dict[tuple[Any, Any], Attributes] = {}
    for resource in resources if isinstance(resources, list) else [None]:
        match resource:
            case {"type": str(type_name), "id": str(id_), "attributes": dict(attributes)}:
                found[type_name, id_] = attributes
            case _:
                raise ValueError("`included` must have resources with `type`, `id`, `attributes`")
    if len(found) < len(resources):
        raise ValueError("`included` has a resource twice")
    return found


def _writable(type_name: str, attributes: Attributes) -> Attributes:
    """Return the attributes without those that the service computes."""
    return {name: value for name, value in attributes.items() if name not in _READ_ONLY[type_name]}


def _linked(
    data: dict[str, Any], name: str, included: dict[tuple[Any, Any], Attributes], type_name: str
) -> list[Attributes]:
    """Return the attributes of the resources that a relationship names. Raises ValueError.

    These must be all the included ones, and the included ones all of these (JSON:API 1.0, Compound
    Documents): otherwise, the import would lose some of them.
    """
    match data.get("relationships", {}):
        case {**relationships}:
            relationship = relationships.get(name, {"data": []})
        case _:
            raise ValueError("`relationships` must be an object")
    linkage = relationship.get("data") if isinstance(relationship, dict) else ...
    identifiers = linkage if isinstance(linkage, list) else [] if linkage is None else [linkage]
    keys = []
    for identifier in identifiers:
        match identifier:
            case {"type": str(type_), "id": str(id_)}:
                keys.append((type_, id_))
            case _:
                raise ValueError(f"the data of `{name}` must be identifiers with `type` and `id`")
    if set(keys) != set(included) or any(type_ != type_name for type_, _ in keys):
        raise ValueError(f"`included` must have the resources that `{name}` names, and no others")
    return [_writable(type_, attributes) for (type_, _), attributes in included.items()]


def _identifier(resource: dict[str, Any]) -> dict[str, Any]:
    return {"type": resource["type"], "id": resource["id"]}

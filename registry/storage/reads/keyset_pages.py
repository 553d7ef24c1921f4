"""`page[after]`, `page[before]` -> queries (keyset pagination: by values of the last record)."""

from dataclasses import replace

from registry.jsonapi.cursors import END
from registry.jsonapi.pagination import CursorPage, Window
from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.joined_reads import read
from registry.storage.reads.sort_keys import position_of


async def keyset_page(query: CollectionQuery, page: CursorPage) -> Window:
    """Return the records after or before the position of a page. Raises PyMongoError."""
    if page.position == END and not page.backwards:
        return Window((), more=False)  # nothing follows the end
    order = query.order
    if page.backwards:
        order = tuple(replace(key, descending=not key.descending) for key in order)
    size = page.size + 1  # one more reveals whether others follow
    following = await read(query, order, size, page.position or END)
    records = following[: page.size]
    if page.backwards:
        records.reverse()
    if not records:
        return Window((), more=False)
    first, last = (position_of(record, query.order) for record in (records[0], records[-1]))
    return Window(records, len(following) > page.size, first, last)

"""Query parameters: their values as hypothesis generates them, and their text in a URL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

Condition = Mapping[str, Any]
"""A condition in the JSON notation of `filter`."""


@dataclass(frozen=True)
class Query:
    """The parameters of one request.

    include: paths; None if the parameter is not sent. sizes: the number of members to include, by
    path. sort: names, with `-` for descending. conditions: sent as `filter[name][op]`.
    combined: sent as JSON. page: the members of `page`.
    """

    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    include: tuple[str, ...] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    sort: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    combined: tuple[Condition, ...] = ()
    page: Mapping[str, int | str] = field(default_factory=dict)

    def url(self, path: str, page: Mapping[str, int | str] | None = None) -> str:
        """Return the path with these parameters. page: replaces the members of `page`."""
        parameters = [(f"fields[{name}]", ",".join(names)) for name, names in self.fields.items()]
        if self.include is not None:
            parameters.append(("include", ",".join(self.include)))
        parameters += [(f"page[{name}][size]", str(size)) for name, size in self.sizes.items()]
        if self.sort:
            parameters.append(("sort", ",".join(self.sort)))
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

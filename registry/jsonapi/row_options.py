"""How a file of rows is imported: the parameters of a POST with `Content-Type: text/csv`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from registry.jsonapi.error_objects import ErrorCollector, quoted
from registry.jsonapi.error_types import InvalidParameter
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType

KEY, REPLACE, CREATE = "rows[key]", "rows[replace]", "rows[create]"

_BOOLEANS = {"true": True, "false": False}


@dataclass(slots=True)
class RowOptions:
    """How the rows of a file are read.

    keys: by type, the names of what tells its resources apart, if it was chosen. renamed: columns
    by their names in the header, "" for one to leave out. replaces: whether an empty cell removes
    what is stored. creates: whether each row is a new resource.
    """

    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    replaces: bool = False
    creates: bool = False


class RowOptionsParser:
    """Parses the parameters one by one. Its methods raise InvalidParameter. resource: of rows."""

    def __init__(self, resource: ResourceType, graph: Graph) -> None:
        self.errors = ErrorCollector()
        self._resource, self._graph = resource, graph
        self._options = RowOptions()

    def key(self, parameter: str, values: Sequence[str]) -> None:
        """Take keys: `serial`, `first_name,last_name`, or `owner.email` for related resources."""
        for value in values:
            resource, names = self._named(value)
            if resource is None or not (names == ("id",) or {*names} <= resource.readable.keys()):
                detail = f"{quoted(value)} does not name attributes of one type."
                raise InvalidParameter(detail, parameter=parameter)
            if resource.type in self._options.keys:
                detail = f"There are two keys of the type `{resource.type}`."
                raise InvalidParameter(detail, parameter=parameter)
            self._options.keys[resource.type] = names

    def _named(self, value: str) -> tuple[ResourceType | None, tuple[str, ...]]:
        """Return the type that has the attributes of a key, None for several, and their names."""
        parts = [name.strip().rpartition(".") for name in value.split(",")]
        prefixes, names = {prefix for prefix, _, _ in parts}, tuple(name for *_, name in parts)
        if len(prefixes) > 1 or len({*names}) < len(names):
            return None, ()
        prefix = prefixes.pop()
        if prefix in {"", self._resource.type}:
            return self._resource, names
        link = self._resource.to_one.get(prefix)
        linked = {each.target for each in self._resource.to_one.values()}
        target = link.target if link else prefix if prefix in linked else None
        return (self._graph[target] if target else None), names

    def map(self, _: str, value: str, column: str) -> None:
        """Take the name that replaces that of a column in the header."""
        self._options.renamed[column.strip()] = value.strip()

    def choose(self, parameter: str, value: str) -> None:
        """Take whether to replace, or to create."""
        if value not in _BOOLEANS:
            detail = f"{quoted(parameter)} must be `true` or `false`, not {quoted(value)}."
            raise InvalidParameter(detail, parameter=parameter)
        if parameter == REPLACE:
            self._options.replaces = _BOOLEANS[value]
        else:
            self._options.creates = _BOOLEANS[value]

    def options(self) -> RowOptions:
        """Return the options. Raises RequestError if any parameter is not valid."""
        if self._options.creates and self._resource.type in self._options.keys:
            detail = "Rows that are all new resources have no key."
            self.errors.add(InvalidParameter(detail, parameter=KEY))
        self.errors.raise_any()
        return self._options

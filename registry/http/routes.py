"""What a request needs before its view is called, declared for each path and method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from aiohttp import hdrs, web

from registry.access.principal import Action
from registry.jsonapi.authorization import Requirement
from registry.jsonapi.query import QueryScope
from registry.model.resource_type import Relationship, ResourceType


class TokenUse(Enum):
    """What a path does with an access token, if the service requires them."""

    REQUIRED = auto()
    ACCEPTED = auto()
    IGNORED = auto()


class Cost(Enum):
    """What a request may take, beside what the repository limits for each operation.

    SMALL: little. BODY: a body, which may be large. FOLLOWER: a connection for as long as the
    client likes.
    """

    SMALL = auto()
    BODY = auto()
    FOLLOWER = auto()


@dataclass(frozen=True, slots=True)
class Needs:
    """What a request with one method needs. action: on the types of the path."""

    action: Action
    cost: Cost = Cost.SMALL


_NOTHING = Needs(Action.READ)


@dataclass(eq=False)
class Route:
    """A path, its view, and what its methods need.

    needs: by method; HEAD needs what GET does, OPTIONS nothing. types: that a scope is needed for,
    None for all; query and document may require others. token: whether one is needed at all.
    scope: of the query parameters, for a single resource. relationship: if the path is that of one.
    methods: all supported ones. requirements: by method.
    """

    path: str
    view: type[web.View]
    needs: Mapping[str, Needs]
    types: Sequence[ResourceType | None] = ()
    token: TokenUse = TokenUse.REQUIRED
    scope: QueryScope | None = None
    relationship: Relationship | None = None
    methods: Sequence[str] = field(init=False)
    requirements: Mapping[str, Sequence[Requirement]] = field(init=False)

    def __post_init__(self) -> None:
        needs = {**self.needs, hdrs.METH_OPTIONS: _NOTHING}
        if hdrs.METH_GET in needs:
            needs[hdrs.METH_HEAD] = needs[hdrs.METH_GET]
        self.needs, self.methods = needs, sorted(needs)
        types = tuple(dict.fromkeys(self.types))
        self.requirements = {
            method: [Requirement(needed.action, resource_type) for resource_type in types]
            for method, needed in needs.items()
        }

    def handler(self) -> type[web.View]:
        """Return the view, with this route as its attribute `route`."""
        return type(self.view.__name__, (self.view,), {"route": self})


def route_of(request: web.Request) -> Route | None:
    """Return the route of a request; None for others than those of `Route.handler`."""
    return getattr(request.match_info.handler, "route", None)

"""What a request needs before its view is called, declared for each path and method.

The same deadline holds for all of them: a response has to begin within the seconds of
`Capacity.response_seconds`, apart from the time in which a client sends the body.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, ClassVar, Self

from aiohttp import hdrs, web

from registry.access.authorization import Requirement
from registry.access.principal import Action
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

    needs: by method; HEAD needs what GET does, OPTIONS nothing. types: those for which the token
    needs a scope, None for all; query and document may require others. token: whether one is needed
    at all. scope: of the query parameters, for a single resource. relationship: that of the path,
    if any. methods: all supported ones. requirements: by method.
    """

    path: str
    view: "type[BaseView]"
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


class BaseView(web.View):
    """A view of aiohttp that supports HEAD and OPTIONS. route: what was declared for its path."""

    route: ClassVar[Route]

    @classmethod
    def of(cls, route: Route) -> type[Self]:
        """Return the view of a route, with what it needs of the declaration."""
        members: dict[str, Any] = {"route": route}
        if scope := route.scope:
            members |= {"scope": scope, "resource": scope.resource, "graph": scope.graph}
            if link := route.relationship:
                members |= {"relationship": link, "target": scope.graph[link.target]}
        return type(cls.__name__, (cls,), members)

    async def get(self) -> web.StreamResponse:
        """Respond to GET."""
        raise NotImplementedError

    async def head(self) -> web.StreamResponse:
        """Respond as to GET; aiohttp leaves the body out."""
        return await self.get()

    async def options(self) -> web.Response:
        """Respond with the methods of this path in `Allow` (RFC 9110, 9.3.7)."""
        return web.Response(status=204, headers={hdrs.ALLOW: ", ".join(self.route.methods)})


def route_of(request: web.Request) -> Route | None:
    """Return the declared route of a request; None for others, such as those of files."""
    return getattr(request.match_info.handler, "route", None)

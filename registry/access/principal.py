"""The principal: who sends a request, and the scopes that say what it may do."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from registry.model.resource import Resource


class Action(Enum):
    """What a scope allows; to write includes to read."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request.

    name: that of its access token, or the subject of its JWT. scopes: `read` and `write` are for
    all types, `persons:read` and `persons:write` for the one whose collection is `persons`
    (RFC 6749, 3.3).
    """

    name: str
    scopes: frozenset[str]

    def may(self, action: Action, resource: Resource) -> bool:
        """Whether a scope allows the action on resources of a type."""
        return not self.scopes.isdisjoint(sufficient_scopes(action, resource))


def sufficient_scopes(action: Action, resource: Resource) -> tuple[str, ...]:
    """Return the scopes each of which allows the action on a type, the narrowest first."""
    actions = (Action.WRITE,) if action is Action.WRITE else (Action.READ, Action.WRITE)
    of_type = tuple(f"{resource.collection}:{one.value}" for one in actions)
    return (*of_type, *(one.value for one in actions))


def known_scopes(resources: Iterable[Resource]) -> frozenset[str]:
    """Return every scope that allows something on one of the types."""
    return frozenset(
        scope
        for resource in resources
        for action in Action
        for scope in sufficient_scopes(action, resource)
    )

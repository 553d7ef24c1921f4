"""The principal: who sends a request, the scopes that say what it may do, and why it is refused."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from registry.model.resource_type import ResourceType


class Action(Enum):
    """What a scope allows; writing includes reading."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request.

    name: that of its access token, or the subject of its JWT. scopes: `read` and `write` are for
    all types, `persons:read` and `persons:write` for the one whose collection is `persons`
    (RFC 6749, 3.3). issuer: of its JWT, within which the subject is unique (OpenID Connect
    Core 1.0, 2); None for an access token of the service.
    """

    name: str
    scopes: frozenset[str]
    issuer: str | None = None

    @property
    def id(self) -> str:
        """The name that no other principal has: that of its access token, or `issuer#subject`.

        Neither the name of an access token nor an issuer contains `#`.
        """
        return self.name if self.issuer is None else f"{self.issuer}#{self.name}"

    def has_one_of(self, scopes: Iterable[str]) -> bool:
        """Whether the principal has at least one of the scopes."""
        return not self.scopes.isdisjoint(scopes)


class InvalidToken(Exception):
    """A token grants no access (RFC 6750, 3.1, `invalid_token`).

    reason: one line for the client; it contains no part of the token.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class KeysUnavailable(Exception):
    """The keys of the OpenID Connect issuer cannot be read, so its tokens cannot be verified.

    seconds: until the service tries to read them again.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__("The keys of the OpenID Connect issuer cannot be read.")
        self.seconds = seconds


@lru_cache(maxsize=128)  # as it would take most of the time of authorization
def sufficient_scopes(action: Action, resource: ResourceType | None) -> tuple[str, ...]:
    """Return the scopes each of which allows the action on a type, the narrowest first.

    resource: None for the action on all types.
    """
    actions = (Action.WRITE,) if action is Action.WRITE else (Action.READ, Action.WRITE)
    of_type = [f"{resource.collection}:{one.value}" for one in actions] if resource else []
    return (*of_type, *(one.value for one in actions))


def known_scopes(resources: Iterable[ResourceType]) -> frozenset[str]:
    """Return every scope that allows something on one of the types."""
    return frozenset(
        scope
        for resource in resources
        for action in Action
        for scope in sufficient_scopes(action, resource)
    )

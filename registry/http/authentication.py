"""Authentication: the access token of a request -> its principal (RFC 6750)."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import hdrs, web

from registry.access.principal import Principal
from registry.access.tokens import PREFIX, check_form, digest_of
from registry.jsonapi.errors import InvalidAuthorization
from registry.storage.token_lookups import TokenLookups

Verifier: TypeAlias = Callable[[str], Awaitable[Principal]]
"""Takes a token and returns its principal. Raises InvalidToken."""


class Authenticator:
    """Finds the principals of access tokens.

    verify_other: for tokens that the service has not created; None if there are no others.
    """

    def __init__(self, lookups: TokenLookups, verify_other: Verifier | None = None) -> None:
        self._lookups = lookups
        self._verify_other = verify_other

    def recall(self, token: str) -> Principal | None:
        """Return the principal of a token that was verified less than a second ago, else None."""
        return self._lookups.recall(digest_of(token)) if token.startswith(PREFIX) else None

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token. Raises InvalidToken, Unavailable or Overloaded."""
        if self._verify_other and not token.startswith(PREFIX):
            return await self._verify_other(token)
        check_form(token)
        return await self._lookups.find(digest_of(token))


def bearer_token(request: web.BaseRequest) -> str | None:
    """Return the access token of a request (RFC 6750, 2.1), None without or with another scheme.

    Raises InvalidAuthorization if there are several or none after the scheme. The form of the token
    is left to its verification.
    """
    values = request.headers.getall(hdrs.AUTHORIZATION, ())
    if not values:
        return None
    if len(values) > 1:
        raise InvalidAuthorization("The header `Authorization` is given more than once.")
    scheme, _, token = values[0].partition(" ")
    if scheme.lower() != "bearer":
        return None
    if not (stripped := token.strip()):
        raise InvalidAuthorization("There is no access token in the header `Authorization`.")
    return stripped

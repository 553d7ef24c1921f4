"""Errors of access control."""


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

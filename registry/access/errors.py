"""Errors of access control."""


class InvalidToken(Exception):
    """A token grants no access (RFC 6750, 3.1, `invalid_token`).

    reason: one line for the client; it contains no part of the token.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

"""All errors of one request: collected, and raised at once."""

from collections.abc import Sequence
from typing import Any

from registry.jsonapi.error_objects import ApiError

MAX_ERRORS = 100
"""Errors per response: a request body of 1 MiB can contain more than 300,000."""


class ApiErrors(Exception):
    """All errors of one request."""

    def __init__(self, errors: Sequence[ApiError]) -> None:
        first = errors[0].detail
        super().__init__(first if len(errors) == 1 else f"{len(errors)} errors, first: {first}")
        self.errors = errors

    @property
    def status(self) -> int:
        """The status all errors share, else 400, the most generally applicable one for 4xx errors.

        JSON:API 1.0, Processing Errors. Errors of the query string (400) and of the document (422),
        which are reported together, are such a case.
        """
        statuses = {error.status for error in self.errors}
        return statuses.pop() if len(statuses) == 1 else 400


class ErrorCollector:
    """Collects the errors of one request, in order to report all of them.

    As a context manager, it collects the errors that its block raises.
    """

    def __init__(self) -> None:
        self._errors: list[ApiError] = []

    def add(self, error: ApiError) -> None:
        """Add an error. Raises ApiErrors when MAX_ERRORS are reached."""
        self._errors.append(error)
        if len(self._errors) == MAX_ERRORS:
            raise ApiErrors(self._errors)

    def __enter__(self) -> None: ...

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> bool:
        if error is None or not isinstance(error, ApiError | ApiErrors):
            return False
        for each in [error] if isinstance(error, ApiError) else error.errors:
            self.add(each)
        return True

    def raise_any(self) -> None:
        """Raise ApiErrors if any error was added."""
        if self._errors:
            raise ApiErrors(self._errors)

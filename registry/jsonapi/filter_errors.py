"""Errors in filters, with their positions in JSON."""

from typing import Any, TypeAlias

import orjson

from registry.jsonapi.error_details import quoted

JsonPath: TypeAlias = tuple[str | int, ...]
"""A position in JSON: member names and array indexes from the root."""


class InvalidFilter(Exception):
    """An invalid filter.

    path: the position of the error. defects: the position and the detail of each error.
    """

    def __init__(self, detail: str, *path: str | int) -> None:
        super().__init__(detail)
        self.defects: list[tuple[JsonPath, str]] = [(path, detail)]


class Below:
    """Reports errors of the block as being below this step.

    Not by `contextmanager`, which takes three times as long: there are two for each condition.
    """

    __slots__ = ("_step",)

    def __init__(self, step: str | int) -> None:
        self._step = step

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, InvalidFilter):
            error.defects = [((self._step, *path), detail) for path, detail in error.defects]


def quoted_json(value: Any) -> str:
    """Return a value as JSON in backticks, for the detail of an error."""
    return quoted(orjson.dumps(value).decode())

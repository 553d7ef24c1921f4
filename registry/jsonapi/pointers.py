"""Positions in a request document, as JSON Pointers (RFC 6901)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DocumentPosition:
    """A position in a request document. path: member names and array indexes from the root."""

    path: tuple[str | int, ...]

    def __truediv__(self, step: str | int) -> "DocumentPosition":
        """Return the position one step below."""
        return DocumentPosition((*self.path, step))

    @property
    def pointer(self) -> str:
        """The JSON Pointer to the position, for `source.pointer` of an error."""
        return pointer_to(*self.path)


DATA = DocumentPosition(("data",))
"""The position of the primary data."""


def pointer_to(*path: str | int) -> str:
    """Return the JSON Pointer for member names and array indexes."""
    return "".join(f"/{_escape(str(step))}" for step in path)


def _escape(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")

"""Positions in a request document, as JSON Pointers (RFC 6901)."""

from dataclasses import dataclass

_MAX_NAME = 255
"""The maximum length of a member name in a pointer; clients choose the names of some members."""


@dataclass(frozen=True, slots=True)
class DocumentPosition:
    """A position in a request document. path: member names and array indexes from the root."""

    path: tuple[str | int, ...]

    def __truediv__(self, step: str | int) -> "DocumentPosition":
        """Return the position one step below; this one if the name is too long to report."""
        if isinstance(step, str) and len(step) > _MAX_NAME:
            return self
        return DocumentPosition((*self.path, step))

    @property
    def pointer(self) -> str:
        """The JSON Pointer to the position, for `source.pointer` of an error."""
        steps = (str(step).replace("~", "~0").replace("/", "~1") for step in self.path)
        return "".join(f"/{step}" for step in steps)


DATA = DocumentPosition(("data",))

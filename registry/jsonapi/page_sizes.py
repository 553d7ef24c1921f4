"""How many resources a page has."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageSizes:
    """The number of resources per page: by default, and at most."""

    default: int
    largest: int

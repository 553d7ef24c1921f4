"""Which operations a service has rejected."""

import re
from collections.abc import Sequence
from typing import TypeAlias

from registry.client import RegistryError
from registry.protocol import OPERATIONS

Rejection: TypeAlias = tuple[int | None, str | None, str]
"""The index of an operation, its member, and why it is rejected; no index if all are."""

_REJECTED = {400, 404, 409, 413, 422}
"""Statuses of operations that the service will never accept."""

_POINTER = re.compile(rf"/{OPERATIONS}/(\d+)(?:/.*?(?:attributes|relationships)/([^/]*).*|/.*)?")


def rejections(error: RegistryError) -> Sequence[Rejection]:
    """Return why operations are rejected; raise the error if it is another one."""
    found = []
    for each in error.errors:
        match = _POINTER.fullmatch(str(each.get("source", {}).get("pointer")))
        index, member = (int(match[1]), match[2]) if match else (None, None)
        found.append((index, member, each["detail"]))
    # A 404 without a pointer is one of the path.
    is_of_path = error.status == 404 and None in [index for index, _, _ in found]
    if error.status not in _REJECTED or not found or is_of_path:
        raise error
    return found

"""What Schemathesis takes for a failure, and is none; it loads this by SCHEMATHESIS_HOOKS."""

from __future__ import annotations

import re
from typing import Any

import schemathesis
from schemathesis import Case, HookContext, Response
from schemathesis.core.failures import Failure
from schemathesis.openapi.checks import RejectedPositiveData, UseAfterFree

INTERPLAY = re.compile(
    r"page\[(number|total|after|before)\]"  # a number or a cursor, and the cursor of an order
    r"|page\[[^\]]+\]\[size\]"  # of what `include` names
    r"|sort"  # one field is named once, rising or falling
)
"""The parameters that are refused for how they go together."""


@schemathesis.hook
def filter_failure(_: HookContext, failure: Failure, case: Case[Any], response: Response) -> bool:
    """Whether a failure is one of the service or of its description."""
    if isinstance(failure, RejectedPositiveData):
        # That a version has gone by depends, as 404 does, on what others did.
        return response.status_code != 412 and not all(map(_is_beyond_openapi, _errors(response)))
    # What is removed from a relationship is not the relationship.
    return not (isinstance(failure, UseAfterFree) and "/relationships/" in case.operation.path)


def _errors(response: Response) -> list[dict[str, Any]]:
    errors: list[dict[str, Any]] = response.json()["errors"]
    return errors


def _is_beyond_openapi(error: dict[str, Any]) -> bool:
    """Whether a request is refused for what a description in OpenAPI 3.0 has no way to say."""
    source: dict[str, str] = error.get("source", {})
    if "parameter" in source:
        return INTERPLAY.fullmatch(source["parameter"]) is not None
    # A local id is that of an operation before, and of one alone; a URL has a greatest length.
    return source.get("pointer", "").endswith("/lid") or "Got more than" in error["detail"]

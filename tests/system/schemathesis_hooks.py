"""Filters false positives of Schemathesis, which loads this module by SCHEMATHESIS_HOOKS."""

import re
from typing import Any

import schemathesis
from schemathesis import Case, HookContext, Response
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.openapi.checks import RejectedPositiveData, UseAfterFree

INDESCRIBABLE_PARAMETERS = re.compile(
    r"filter"  # JSON in a string
    r"|page\[(number|total|after|before)\]"  # either numbers or a cursor, which depends on `sort`
    r"|page\[[^\]]+\]\[size\]"  # only for relationships named in `include`
    r"|withCount"  # paths begin in `include`; Swagger UI sends no array that may not be empty
    r"|rows\[.+"  # columns are in the file; POST has other parameters for each media type
    r"|sort"  # each field only once, ascending or descending
)
"""Parameters whose validity OpenAPI 3.0 cannot describe."""


@schemathesis.hook
def filter_failure(_: HookContext, failure: Failure, case: Case[Any], response: Response) -> bool:
    """Return whether a failure is a defect of the service or of its description."""
    # It depends on the state of the resource, as 404 does, and precedes errors of linkage.
    if response.status_code == 412:
        return not isinstance(failure, RejectedPositiveData | AcceptedNegativeData)
    if isinstance(failure, RejectedPositiveData):
        return not all(map(_is_indescribable, _errors(response)))
    # DELETE on a relationship removes members of the relationship, which itself remains.
    return not (isinstance(failure, UseAfterFree) and "/relationships/" in case.operation.path)


def _errors(response: Response) -> list[dict[str, Any]]:
    errors: list[dict[str, Any]] = response.json()["errors"]
    return errors


def _is_indescribable(error: dict[str, Any]) -> bool:
    """Return whether the request breaks a rule that OpenAPI 3.0 cannot express."""
    source: dict[str, str] = error.get("source", {})
    if "parameter" in source:
        if "`rows[" in error["detail"]:  # the parameters of POST depend on its media type
            return True
        return INDESCRIBABLE_PARAMETERS.fullmatch(source["parameter"]) is not None
    # What exists and which values are taken depends on the state, with several errors too.
    if error["status"] in {"404", "409"}:
        return True
    # The columns of a file are text in its body; it has no key, which documents may have.
    if error["code"] == "invalid_file" or "A file of rows has no" in error["detail"]:
        return True
    # Positions come from responses; a key is for one request; a `lid` must be unique and refer to
    # an earlier operation; the length of a URL is limited.
    if error["code"] in {"invalid_position", "idempotency_key_reused"}:
        return True
    # `id` and `lid` exclude each other: only `not` can say so, which generators of clients drop.
    is_local = source.get("pointer", "").endswith("/lid") or "not both" in error["detail"]
    return is_local or "Got more than" in error["detail"]

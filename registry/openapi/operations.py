"""What an operation is made of: its parameters, its body, and the answers to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from registry.http.etags import make_etag
from registry.http.responses import REQUEST_ID_HEADER
from registry.jsonapi.content_negotiation import MEDIA_TYPE
from registry.jsonapi.errors import ApiError
from registry.model.record import VERSION
from registry.openapi import examples
from registry.openapi.parameters import references
from registry.openapi.schemas import Json, reference


def header(description: str, example: str, *, always: bool = True) -> Json:
    """Return a header of a response."""
    return {
        "description": description,
        "required": always,
        "schema": {"type": "string"},
        "example": example,
    }


_TAG_EXAMPLE = f'"{make_etag(b"", {VERSION: 1})}"'

HEADERS: Json = {
    "RequestId": header("The id of the request in the log.", examples.REQUEST_ID),
    "Vary": header("What of the request can change the answer.", "Accept"),
    "ETag": header(
        "The entity tag of the answer, for `If-None-Match` and `If-Match`.", _TAG_EXAMPLE
    ),
}
"""The component headers."""

_ON_ALL: Json = {
    REQUEST_ID_HEADER: reference("headers", "RequestId"),
    "Vary": reference("headers", "Vary"),
}

TAGGED: Json = {"ETag": reference("headers", "ETag")}
"""The header of the representation of a resource, or of the linkage of one."""

TAGGED_PAGE: Json = {
    "ETag": header(
        "The entity tag of a page, for `If-None-Match`; a whole collection has none.",
        _TAG_EXAMPLE,
        always=False,
    )
}


def operation(
    tag: str,
    operation_id: str,
    summary: str,
    description: str,
    parameters: Json,
    answers: Json,
    problems: Iterable[ApiError],
    body: Json | None = None,
) -> Json:
    """Return an operation.

    parameters: by the names of their components. answers: by status. problems: what can be
    answered in place of them. body: the request body, if it takes one.
    """
    return {
        "tags": [tag],
        "operationId": operation_id,
        "summary": summary,
        "description": description,
        "parameters": references(parameters),
        **({"requestBody": body} if body else {}),
        "responses": answers | _refusals(problems),
    }


def body(schema: Json, example: Json, media_type: str = MEDIA_TYPE) -> Json:
    """Return a request body."""
    return {"required": True, "content": {media_type: {"schema": schema, "example": example}}}


def answer(
    description: str,
    schema: Json,
    documents: Json,
    headers: Json | None = None,
    media_type: str = MEDIA_TYPE,
) -> Json:
    """Return a response; documents: examples by name; headers: those that not all have."""
    named = {name: {"value": example} for name, example in documents.items()}
    return {
        **empty_answer(description, headers),
        "content": {media_type: {"schema": schema, "examples": named}},
    }


def empty_answer(description: str, headers: Json | None = None) -> Json:
    """Return a response without a body."""
    return {"description": description, "headers": _ON_ALL | (headers or {})}


NOT_MODIFIED: Json = {
    "304": empty_answer("The client has this answer: `If-None-Match` names it.", TAGGED)
}

NO_CONTENT: Json = {"204": empty_answer("It is done.")}


def a(noun: str) -> str:
    """Return the noun with its article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _refusals(problems: Iterable[ApiError]) -> Json:
    by_status: dict[int, list[ApiError]] = defaultdict(list)
    for problem in problems:
        by_status[problem.status].append(problem)
    return {str(status): _refusal(by_status[status]) for status in sorted(by_status)}


def _refusal(problems: list[ApiError]) -> Json:
    return answer(
        " ".join(dict.fromkeys(type(problem).__doc__ or "" for problem in problems)),
        reference("schemas", "ErrorDocument"),
        {problem.code: examples.error(problem) for problem in problems},
        {
            name: header("Seconds to wait before the next attempt.", value)
            for problem in problems
            for name, value in problem.headers.items()
        },
    )

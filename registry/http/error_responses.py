"""Whatever goes wrong becomes an error document, with the id under which the log has it."""

from __future__ import annotations

import logging

from aiohttp import hdrs, web

from registry.http.app_keys import UI_PATH
from registry.http.responses import REQUEST_ID_HEADER, new_request_id
from registry.http.storage_errors import to_api_errors
from registry.jsonapi import documents as document
from registry.jsonapi.content_negotiation import MEDIA_TYPE
from registry.jsonapi.errors import (
    ApiError,
    ApiErrors,
    BodyTooLarge,
    ExpectationFailed,
    InternalError,
    MalformedRequest,
    MethodNotAllowed,
    NotFound,
    RequestTimeout,
    quoted,
)
from registry.storage.errors import StorageError

REQUEST_ID = web.RequestKey("request_id", str)

_log = logging.getLogger("registry")


async def add_common_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Put on every response the id of the request, and that `Accept` can make another of it.

    A signal handler of aiohttp (JSON:API 1.0, Content Negotiation).
    """
    response.headers[REQUEST_ID_HEADER] = request_id(request)
    response.headers[hdrs.VARY] = hdrs.ACCEPT


def request_id(request: web.BaseRequest) -> str:
    """Return the id of the request, given to it at the first call."""
    identity = request.get(REQUEST_ID)
    if identity is None:
        identity = request[REQUEST_ID] = new_request_id()
    return identity


def error_response(request: web.BaseRequest, error: BaseException) -> web.Response:
    """Return the error document for an exception, and log it."""
    problems = _problems(request, error)
    status, identity = problems.status, request_id(request)
    _log.log(
        logging.ERROR if status >= 500 else logging.INFO,
        "%s %r %s -> %d %r",
        request.method,
        request.raw_path,
        identity,
        status,
        str(problems),
        exc_info=error if status == InternalError.status else None,
    )
    response = web.Response(
        status=status,
        body=document.errors(problems.errors, identity),
        content_type=MEDIA_TYPE,
        headers={REQUEST_ID_HEADER: identity, hdrs.VARY: hdrs.ACCEPT},
    )
    for problem in problems.errors:
        response.headers.update(problem.headers)
        if isinstance(problem, MalformedRequest | RequestTimeout):
            response.force_close()  # where the next request begins is not known
    return response


def raw_error_response(error: ApiError) -> bytes:
    """Return the bytes of a response to a request that never became one."""
    identity = new_request_id()
    body = document.errors([error], identity)
    _log.info("%s -> %d %s", identity, error.status, error)
    head = (
        f"HTTP/1.1 {error.status} {error.title}\r\n"
        f"{hdrs.CONTENT_TYPE}: {MEDIA_TYPE}\r\n"
        f"{hdrs.CONTENT_LENGTH}: {len(body)}\r\n"
        f"{REQUEST_ID_HEADER}: {identity}\r\n"
        f"{hdrs.VARY}: {hdrs.ACCEPT}\r\n"
        f"{hdrs.CONNECTION}: close\r\n\r\n"
    )
    return head.encode() + body


def _problems(request: web.BaseRequest, error: BaseException) -> ApiErrors:
    if isinstance(error, ApiErrors):
        return error
    if isinstance(error, ApiError):
        return ApiErrors([error])
    if isinstance(error, StorageError):
        return to_api_errors(error)
    if isinstance(error, web.HTTPException):
        return ApiErrors([_of_aiohttp(request, error)])
    return ApiErrors([InternalError()])


def _of_aiohttp(request: web.BaseRequest, error: web.HTTPException) -> ApiError:
    match error:
        case web.HTTPNotFound():
            return NotFound(
                f"There is nothing at {quoted(request.path)}; see {UI_PATH}/ for what there is."
            )
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            return MethodNotAllowed(
                f"{quoted(request.path)} takes {allowed}, not {error.method}.",
                headers={hdrs.ALLOW: allowed},
            )
        case web.HTTPRequestEntityTooLarge():
            return BodyTooLarge(request.client_max_size)
        case web.HTTPExpectationFailed():
            return ExpectationFailed()
    return InternalError()

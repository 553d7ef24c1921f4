"""Error documents (JSON:API 1.0, Errors), with the id under which the log has the request."""

from __future__ import annotations

import logging
from http.client import responses

from aiohttp import hdrs, web
from multidict import CIMultiDict

from registry.http.app_keys import UI_PATH
from registry.http.responses import common_headers, new_request_id, request_id
from registry.http.storage_errors import to_api_errors
from registry.jsonapi import documents as document
from registry.jsonapi.content_negotiation import MEDIA_TYPE
from registry.jsonapi.errors import (
    ApiError,
    ApiErrors,
    BodyTooLarge,
    InternalError,
    MalformedRequest,
    MethodNotAllowed,
    NotFound,
    RequestTimeout,
    quoted,
)
from registry.storage.errors import StorageError

_log = logging.getLogger("registry")


def error_response(request: web.BaseRequest, error: Exception) -> web.Response:
    """Return the error document for an exception, and log it.

    An HTTPException keeps its status, headers and cookies.
    """
    errors = log_error(request, error)
    headers = CIMultiDict(common_headers(request_id(request)))
    if isinstance(error, web.HTTPException):
        headers.extend(error.headers)
        headers.popall(hdrs.CONTENT_TYPE, None)  # of its body, which is replaced
        headers.popall(hdrs.CONTENT_LENGTH, None)
    for one in errors.errors:
        headers.update(one.headers)
    response = web.Response(
        status=errors.status,
        body=document.errors(errors.errors, request_id(request)),
        content_type=MEDIA_TYPE,
        headers=headers,
    )
    if isinstance(error, web.HTTPException):
        response.cookies.update(error.cookies)
    if any(isinstance(one, MalformedRequest | RequestTimeout) for one in errors.errors):
        response.force_close()  # where the next request begins is not known
    return response


def raw_error_response(error: ApiError) -> bytes:
    """Return an error response as bytes, for a connection that has not received a whole head."""
    identity = new_request_id()
    body = document.errors([error], identity)
    _log.info("%s -> %d %s", identity, error.status, error)
    headers = {
        **common_headers(identity),
        hdrs.CONTENT_TYPE: MEDIA_TYPE,
        hdrs.CONTENT_LENGTH: str(len(body)),
        hdrs.CONNECTION: "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {error.status} {error.title}\r\n{lines}\r\n".encode() + body


def log_error(request: web.BaseRequest, error: Exception) -> ApiErrors:
    """Write what went wrong with a request to the log; return its errors."""
    errors = _api_errors(request, error)
    _log.log(
        logging.ERROR if errors.status >= 500 else logging.INFO,
        "%s %r %s -> %d %r",
        request.method,
        request.raw_path,
        request_id(request),
        errors.status,
        str(errors),
        exc_info=error if errors.status == InternalError.status else None,
    )
    return errors


def _api_errors(request: web.BaseRequest, error: Exception) -> ApiErrors:
    match error:
        case ApiErrors():
            return error
        case ApiError():
            return ApiErrors([error])
        case StorageError():
            return to_api_errors(error)
        case web.HTTPException():
            return ApiErrors([_from_http_exception(request, error)])
    return ApiErrors([InternalError()])


def _from_http_exception(request: web.BaseRequest, error: web.HTTPException) -> ApiError:
    match error:
        case web.HTTPNotFound():
            return NotFound(
                f"There is nothing at {quoted(request.path)}; {UI_PATH}/ describes all paths."
            )
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            return MethodNotAllowed(
                f"{quoted(request.path)} supports {allowed}, not {error.method}.",
                headers={hdrs.ALLOW: allowed},
            )
        case web.HTTPRequestEntityTooLarge():
            return BodyTooLarge(request.client_max_size)
    other = ApiError(error.reason)
    other.status, other.title = error.status, responses.get(error.status, "HTTP error")
    other.code = other.title.lower().replace(" ", "_").replace("-", "_")
    return other

"""Error documents (JSON:API 1.0, Errors), with the id under which the log has the request."""

import asyncio
import logging
import socket
import struct
from http.client import responses
from typing import cast

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

from registry.access.principal import InvalidToken, KeysUnavailable, redact
from registry.http.addresses import UI_PATH
from registry.http.app_keys import ADDRESSES
from registry.http.request_ids import request_id
from registry.jsonapi import error_types as errors
from registry.jsonapi.documents import encode_errors
from registry.jsonapi.error_objects import ApiError, RequestError, quoted
from registry.protocol import MEDIA_TYPE

_LINGER_0 = struct.pack("ii", 1, 0)
"""Of SO_LINGER: closing discards what the kernel buffers, in place of a regular end."""

_log = logging.getLogger("registry")


def respond_to(request: web.BaseRequest, error: Exception) -> web.StreamResponse:
    """Return the response to a request that has failed: an error document, if it can be sent.

    If another response has begun, the connection is reset, so that no client takes a part of it
    for the whole. Logs the error, unless the client has disconnected.
    """
    transport = request.transport
    is_closed = transport is None or transport.is_closing()
    is_disconnect = isinstance(error, ConnectionError) and is_closed
    has_begun = has_response_begun(request)
    if not is_disconnect:
        if not has_begun:
            return error_response(request, error)
        log_error(request, error)
    if has_begun and transport is not None:
        reset(transport)
    # An exception of a request's task is in a reference cycle with its traceback, which would keep
    # all parts of a stream in memory until the garbage collector runs.
    error.with_traceback(None)
    return _NoResponse()


def has_response_begun(request: web.BaseRequest) -> bool:
    """Return whether a part of the response has been passed to the connection."""
    return request.writer.output_size > 0


def reset(transport: asyncio.BaseTransport) -> None:
    """Close a connection so that its client notices that something is missing."""
    opened: socket.socket = transport.get_extra_info("socket")
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
    # A cast, as the transports of uvloop are not instances of those of asyncio.
    cast(asyncio.WriteTransport, transport).abort()


class _NoResponse(web.StreamResponse):
    """Ends a request whose connection is closed: it sends nothing."""

    async def prepare(self, _: web.BaseRequest) -> AbstractStreamWriter | None:
        """Raise ConnectionResetError, so that aiohttp ends the connection silently."""
        raise ConnectionResetError


def error_response(request: web.BaseRequest, error: Exception) -> web.Response:
    """Log an exception; return its error document. An HTTPException keeps its headers."""
    reported = log_error(request, error)
    headers = CIMultiDict[str]()
    if isinstance(error, web.HTTPException):
        headers.extend(error.headers)
        headers.popall(hdrs.CONTENT_TYPE, None)  # of its body, which is replaced
        headers.popall(hdrs.CONTENT_LENGTH, None)
    for member in reported.errors:
        headers.update(member.headers)
    response = web.Response(
        status=reported.status,
        body=encode_errors(reported.errors, request_id(request)),
        content_type=MEDIA_TYPE,
        headers=headers,
    )
    broken = errors.MalformedRequest | errors.RequestTimeout
    is_broken = any(isinstance(error, broken) for error in reported.errors)
    # Where the next request begins is not known, nor whether a body still follows.
    if is_broken or (hdrs.EXPECT in request.headers and not request.content.is_eof()):
        response.force_close()
    return response


def log_error(request: web.BaseRequest, error: Exception) -> RequestError:
    """Log an exception; return the errors to report."""
    reported = _request_error(request, error)
    # Truncated, so that the line has its end as well.
    text, sender = "%s %.160a %s -> %d %.160a", [request_id(request)]
    is_defect = any(isinstance(error, errors.InternalError) for error in reported.errors)
    is_stop = any(isinstance(error, errors.ServiceStopping) for error in reported.errors)
    is_denied = any(hdrs.WWW_AUTHENTICATE in error.headers for error in reported.errors)
    if is_denied and isinstance(request, web.Request):
        # A separate template, as the log omits some of many lines with the same one.
        text = "%s %.160a %s from %s -> %d %.160a"
        sender.append(request.app[ADDRESSES].client_address(request))
    _log.log(
        logging.ERROR if reported.status >= 500 and not is_stop else logging.INFO,
        text,
        request.method,
        redact(request.raw_path),
        *sender,
        reported.status,
        redact(str(reported)),
        exc_info=error if is_defect else None,
        extra={"request_id": request_id(request)},
    )
    return reported


def _request_error(request: web.BaseRequest, error: Exception) -> RequestError:
    match error:
        case RequestError():
            return error
        case InvalidToken():
            return errors.TokenRejected(error.reason)
        case KeysUnavailable():
            return errors.IssuerUnavailable(str(error), retry_after=error.seconds)
        case web.HTTPException():
            return _from_http_exception(request, error)
        case _:
            return errors.InternalError()


def _from_http_exception(request: web.BaseRequest, error: web.HTTPException) -> ApiError:
    path = quoted(request.path)
    match error:
        case web.HTTPNotFound():
            return errors.NotFound(f"There is nothing at {path}; {UI_PATH}/ describes all paths.")
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            detail = f"{path} supports {allowed}, not {error.method}."
            return errors.MethodNotAllowed(detail, headers={hdrs.ALLOW: allowed})
    result = ApiError(error.reason)
    result.status, result.title = error.status, responses.get(error.status, "HTTP error")
    result.code = result.title.lower().replace(" ", "_").replace("-", "_")
    return result

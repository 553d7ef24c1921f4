"""Error documents (JSON:API 1.0, Errors), with the id under which the log has the request."""

import asyncio
import logging
import socket
import struct
from http.client import responses
from typing import cast

from aiohttp import hdrs, web
from multidict import CIMultiDict

from registry.access.principal import redact
from registry.http.addresses import UI_PATH
from registry.http.app_keys import ADDRESSES
from registry.http.request_headers import request_id
from registry.jsonapi import error_types as errors
from registry.jsonapi.documents import encode_errors
from registry.jsonapi.error_objects import ApiError, RequestError, quoted
from registry.protocol import MEDIA_TYPE

_LINGER_0 = struct.pack("ii", 1, 0)
"""Of SO_LINGER: closing discards what the kernel buffers, in place of a regular end."""

_log = logging.getLogger("registry")


def respond_to(request: web.BaseRequest, error: Exception) -> web.Response:
    """Log an exception; return its error document. An HTTPException keeps its headers.

    If another response has begun, the connection is reset. A client that has disconnected is not
    logged. In both cases, nothing can be sent.
    """
    transport = request.transport
    if isinstance(error, ConnectionError) and (transport is None or transport.is_closing()):
        return web.Response()
    reported, headers = log_error(request, error), CIMultiDict[str]()
    for member in reported.errors:
        headers.update(member.headers)
    response = web.Response(
        status=reported.status,
        body=encode_errors(reported.errors, request_id(request)),
        content_type=MEDIA_TYPE,
        headers=headers,
    )
    is_broken = isinstance(reported, errors.MalformedRequest | errors.RequestTimeout)
    # Where the next request begins is not known, nor whether a body still follows.
    if is_broken or (hdrs.EXPECT in request.headers and not request.content.is_eof()):
        response.force_close()
    reset_if_begun(request)
    # An exception of a request's task is in a reference cycle with its traceback, which would keep
    # all parts of a stream in memory until the garbage collector runs.
    error.with_traceback(None)
    return response


def reset_if_begun(request: web.BaseRequest) -> None:
    """Reset the connection if it has a part of a response, which would be taken for the whole."""
    if request.writer.output_size > 0 and request.transport is not None:
        reset(request.transport)


def reset(transport: asyncio.BaseTransport) -> None:
    """Close a connection so that its client notices that something is missing."""
    opened: socket.socket = transport.get_extra_info("socket")
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
    # A cast, as the transports of uvloop are not instances of those of asyncio.
    cast(asyncio.WriteTransport, transport).abort()


def log_error(request: web.BaseRequest, error: Exception) -> RequestError:
    """Log an exception; return the errors to report."""
    reported = error if isinstance(error, RequestError) else _translated(request, error)
    first, id_ = reported.errors[0], request_id(request)
    # Truncated, so that the line has its end as well.
    text, sender = "%s %.160a %s -> %d %.160a", [id_]
    if hdrs.WWW_AUTHENTICATE in first.headers and isinstance(request, web.Request):
        # A separate template, as the log omits some of many lines with the same one.
        text = "%s %.160a %s from %s -> %d %.160a"
        sender.append(request.app[ADDRESSES].client_address(request))
    is_failure = reported.status >= 500 and not isinstance(first, errors.ServiceStopping)
    _log.log(
        logging.ERROR if is_failure else logging.INFO,
        text,
        request.method,
        redact(request.raw_path),
        *sender,
        reported.status,
        redact(str(reported)),
        exc_info=error if isinstance(first, errors.InternalError) else None,
        extra={"request_id": id_},
    )
    return reported


def _translated(request: web.BaseRequest, error: Exception) -> ApiError:
    """Return the error that stands for an exception of aiohttp, or of a defect."""
    if not isinstance(error, web.HTTPException):
        return errors.InternalError()
    path, headers = quoted(request.path), CIMultiDict(error.headers)
    headers.pop(hdrs.CONTENT_TYPE, None)  # of its body, which is replaced
    match error:
        case web.HTTPNotFound():
            detail = f"There is nothing at {path}; {UI_PATH}/ describes all paths."
            return errors.NotFound(detail, headers=headers)
        case web.HTTPMethodNotAllowed():
            headers[hdrs.ALLOW] = allowed = ", ".join(sorted(error.allowed_methods))
            detail = f"{path} supports {allowed}, not {error.method}."
            return errors.MethodNotAllowed(detail, headers=headers)
    result = ApiError(error.reason, headers=headers)
    result.status, result.title = error.status, responses.get(error.status, "HTTP error")
    result.code = result.title.lower().replace(" ", "_").replace("-", "_")
    return result

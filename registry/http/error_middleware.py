"""The middleware that responds to exceptions from routing and views, and adds common headers."""

from typing import NoReturn

from aiohttp import web
from aiohttp.typedefs import Handler

from registry.http.error_responses import error_response, log_error
from registry.http.responses import DocumentResponse, common_headers, request_id


@web.middleware
async def error_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return the response of the handler, or the error document for what it raises.

    Adds the headers that every response has to those that aiohttp sends.
    """
    try:
        response = await handler(request)
    except BaseException as error:  # noqa: BLE001 - what is not an Exception is raised again
        response = _respond_to(request, error)
    # An exact class, as isinstance is slow for an abstract class such as StreamResponse.
    if response.__class__ is not DocumentResponse and not response.prepared:
        response.headers.update(common_headers(request_id(request)))
    return response


def _respond_to(request: web.Request, error: BaseException) -> web.StreamResponse:
    if request.writer.output_size > 0:
        _abort(request, error)
    if not isinstance(error, Exception) or _is_disconnect(request, error):
        raise error
    if isinstance(error, web.HTTPException) and error.status < 400:
        error.headers.update(common_headers(request_id(request)))
        raise error
    return error_response(request, error)


def _is_disconnect(request: web.Request, error: Exception) -> bool:
    """Whether the client has disconnected, which is not a defect."""
    transport = request.transport
    return isinstance(error, ConnectionError) and (transport is None or transport.is_closing())


def _abort(request: web.Request, error: BaseException) -> NoReturn:
    """Reset the connection, so that the client does not take a partial document for a whole one."""
    if isinstance(error, Exception) and not _is_disconnect(request, error):
        log_error(request, error)
    if request.transport is not None:
        request.transport.abort()
    if isinstance(error, Exception):
        raise ConnectionResetError("The response failed after it had begun.") from error
    raise error

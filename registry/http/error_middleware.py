"""The middleware that responds to exceptions from routing and views, and adds common headers."""

from aiohttp import web
from aiohttp.typedefs import Handler

from registry.http.compression import compress
from registry.http.connection import Connection
from registry.http.error_responses import error_response, log_error
from registry.http.responses import DocumentResponse, NoResponse, common_headers, request_id


@web.middleware
async def error_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return the response of the handler, or the error document for what it raises.

    Adds the common headers to responses other than DocumentResponse, which has them, and compresses
    their bodies.
    """
    try:
        response = await handler(request)
    except (web.HTTPSuccessful, web.HTTPRedirection) as error:
        error.headers.update(common_headers(request_id(request)))
        raise
    except Exception as error:  # noqa: BLE001 - each becomes a response
        response = _respond_to(request, error)
    except BaseException:
        _abort_if_begun(request)
        if isinstance(request.protocol, Connection):
            request.protocol.record(request, None)
        raise
    # An exact class, as isinstance is slow for an abstract class such as StreamResponse.
    if response.__class__ is not DocumentResponse and not response.prepared:
        for name, value in common_headers(request_id(request)).items():
            response.headers.setdefault(name, value)
        if isinstance(response, web.Response):
            await compress(request, response)
    return response


def _respond_to(request: web.Request, error: Exception) -> web.StreamResponse:
    is_disconnect = isinstance(error, ConnectionError) and _is_closed(request)
    if not is_disconnect and not _abort_if_begun(request):
        return error_response(request, error)
    if not is_disconnect:  # which is not a defect
        log_error(request, error)
    # An exception of a request's task is in a reference cycle with its traceback, which would keep
    # all parts of a stream in memory until the garbage collector runs.
    error.with_traceback(None)
    return NoResponse()


def _is_closed(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _abort_if_begun(request: web.Request) -> bool:
    """Reset the connection, so that the client does not take a partial document for a whole one.

    Returns whether the response had begun.
    """
    has_begun = request.writer.output_size > 0
    if has_begun and isinstance(request.protocol, Connection):
        request.protocol.abort()
    return has_begun

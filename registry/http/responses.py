"""One way out: what every response gets before it is sent, that of an error or a stream as well."""

from asyncio import Event

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import istr

from registry.http.addresses import Addresses
from registry.http.app_keys import Limits
from registry.http.compression import GZIP, compresses, gzipped
from registry.http.cors import Cors
from registry.http.deadlines import Deadlines
from registry.http.error_responses import has_response_begun, reset, respond_to
from registry.http.heads import is_last
from registry.http.request_headers import GZIP_SUFFIX, is_current
from registry.http.request_ids import request_id, start_id
from registry.http.sending import MAX_WRITE, WaitingBytes, send_in_parts
from registry.protocol import REQUEST_ID

POSITION = "Registry-Position"
"""The position in the change feed of the point in time that a document shows."""

_REQUEST_ID, _SERVER = istr(REQUEST_ID), istr(hdrs.SERVER)

_COMMON = [
    # A cache asks the service, with the entity tag, before each use; a shared one stores nothing,
    # as what a response contains may depend on who asks (RFC 9111, 5.2.2).
    (hdrs.CACHE_CONTROL, "private, no-cache"),
    (hdrs.VARY, f"{hdrs.ACCEPT}, {hdrs.ACCEPT_ENCODING}"),  # JSON:API 1.0, Content Negotiation
    (istr("X-Content-Type-Options"), "nosniff"),
    # Not for images, scripts and other parts of pages of other origins; CORS is not affected.
    (istr("Cross-Origin-Resource-Policy"), "same-origin"),
]

_OF_CONTENT = (hdrs.CONTENT_TYPE, hdrs.CONTENT_DISPOSITION, hdrs.CONTENT_ENCODING)

_READS = (hdrs.METH_GET, hdrs.METH_HEAD)


def finish(limits: Limits, addresses: Addresses) -> Middleware:
    """Return the outermost middleware, which responds to every request.

    Exceptions become error documents. A read whose response has an entity tag gets 304 or 412 if
    `If-None-Match` or `If-Match` ask for it. Bodies are compressed if the client accepts that, and
    large ones sent in parts. The signal completes the headers: see `finish_head`.
    """
    waiting = WaitingBytes(limits.waiting_bytes)

    @web.middleware
    async def finish(request: web.Request, handler: Handler) -> web.StreamResponse:
        start_id(request)
        try:
            response = await handler(request)
            if not isinstance(response, web.Response):  # a stream, which has been sent
                return response
            if _represent(request, response):
                await _compress(response)
            body = response.body
            if isinstance(body, bytes) and len(body) > MAX_WRITE and request.method != "HEAD":
                with waiting.reserved(addresses.client_network(request), len(body)):
                    return await send_in_parts(request, response, body)
        except Exception as error:  # noqa: BLE001 - each becomes a response
            response = respond_to(request, error)
            if isinstance(response, web.Response) and _represent(request, response):
                await _compress(response)
        except BaseException:  # cancelled
            if has_response_begun(request) and request.transport is not None:
                reset(request.transport)
            raise
        return response

    return finish


async def finish_head(
    cors: Cors,
    deadlines: Deadlines,
    stopping: Event,
    request: web.Request,
    response: web.StreamResponse,
) -> None:
    """Complete the head of a response that is about to be sent."""
    add_common_headers(request, response)
    if response.__class__ is not web.Response:  # the client determines how long a stream takes
        deadlines.stop()
    if cors.is_on:
        cors.add_headers(request, response.headers)
    if stopping.is_set() or is_last(request, response):
        response.force_close()
        response.headers[hdrs.CONNECTION] = "close"


def add_common_headers(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Add the headers that all responses have, unless this one has another value."""
    headers = response.headers
    headers[_SERVER] = "registry"  # without a version, which would reveal known vulnerabilities
    headers[_REQUEST_ID] = request_id(request)
    for name, value in _COMMON:
        headers.setdefault(name, value)


def _represent(request: web.Request, response: web.Response) -> bool:
    """Choose the content coding; leave the body out if the client has it, by its entity tag.

    Returns whether to compress the body. Raises PreconditionFailed.
    """
    headers, body = response.headers, response.body
    if not isinstance(body, bytes):
        return False
    is_compressed = compresses(request, len(body)) and hdrs.CONTENT_ENCODING not in headers
    etag = headers.get(hdrs.ETAG)
    if etag is None:
        return is_compressed
    tag = etag[1:-1]
    if is_compressed:
        tag += GZIP_SUFFIX
        headers[hdrs.ETAG] = f'"{tag}"'
    if request.method not in _READS or not is_current(request, tag):
        return is_compressed
    response.set_status(304)
    response.body = None
    for name in _OF_CONTENT:
        headers.pop(name, None)
    return False


async def _compress(response: web.Response) -> None:
    assert isinstance(response.body, bytes)  # noqa: S101 - for mypy: it was chosen for this
    response.body = await gzipped(response.body)
    response.headers[hdrs.CONTENT_ENCODING] = GZIP

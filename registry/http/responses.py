"""One way out: what every response gets before it is sent, that of an error or a stream as well."""

from asyncio import Event
from contextlib import aclosing

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion10
from aiohttp.typedefs import Handler, Middleware
from multidict import istr

from registry.http.addresses import Addresses
from registry.http.app_keys import REPOSITORY, Deadlines, Limits
from registry.http.checks import VERSIONS, Cors
from registry.http.error_responses import reset_if_begun, respond_to
from registry.http.request_headers import GZIP_SUFFIX, is_current, request_id
from registry.http.sending import (
    GZIP,
    MAX_WRITE,
    Streamed,
    WaitingBytes,
    compresses,
    gzipped,
    send_in_parts,
)
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


def finish(limits: Limits, addresses: Addresses, deadlines: Deadlines) -> Middleware:
    """Return the outermost middleware, which responds to every request.

    Exceptions become error documents, also the one for a response that has not begun in time. A
    read whose response has an entity tag, or is streamed, gets 304 or 412 if `If-None-Match` or
    `If-Match` ask for it. Bodies are compressed if the client accepts that, and large ones sent in
    parts. The signal completes the headers: see `finish_head`.
    """
    waiting = WaitingBytes(limits.waiting_bytes)

    @web.middleware
    async def finish(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            task = deadlines.start()
            try:
                return await _complete(request, await handler(request), waiting, addresses)
            finally:
                deadlines.end(task)
        except Exception as error:  # noqa: BLE001 - each becomes a response
            return await _complete(request, respond_to(request, error), waiting, addresses)
        except BaseException:  # cancelled
            reset_if_begun(request)
            raise

    return finish


async def _complete(
    request: web.Request, response: web.StreamResponse, waiting: WaitingBytes, addresses: Addresses
) -> web.StreamResponse:
    """Give a response its representation, and send it unless it is small. Return it."""
    if not isinstance(response, web.Response):
        if isinstance(response, Streamed):
            await _send_stream(request, response)
        return response
    body = response.body
    if not isinstance(body, bytes):
        return response
    if _represent(request, response, len(body)):
        response.body = body = await gzipped(body)
    if len(body) > MAX_WRITE and response.body and request.method != hdrs.METH_HEAD:
        with waiting.reserved(addresses.client_network(request), len(body)):
            return await send_in_parts(request, response, body)
    return response


async def _send_stream(request: web.Request, response: Streamed) -> None:
    """Send a stream, unless the request is one for its head only, or needs no body."""
    async with aclosing(response.pieces):
        # Until the beginning is ready, an error still becomes an error document.
        beginning = await response.beginning()
        if response.snapshot is not None:  # it has its time by now
            position = await request.app[REPOSITORY].position_of(response.snapshot)
            response.headers[POSITION] = position
        _represent(request, response, len(beginning))
        if response.status != 304 and request.method != hdrs.METH_HEAD:
            await response.send(request, beginning)


def _represent(request: web.Request, response: web.StreamResponse, size: int) -> bool:
    """Choose the content coding; leave the body out if the client has it.

    A document without an entity tag, such as that of a whole collection, matches only `*` (RFC
    9110, 13.1). size: of the body, in bytes. Returns whether it is to be compressed. Raises
    PreconditionFailed.
    """
    headers = response.headers
    etag = headers.get(hdrs.ETAG)
    tag = None if etag is None else etag[1:-1]
    is_compressed = compresses(request, size) and hdrs.CONTENT_ENCODING not in headers
    if is_compressed:
        headers[hdrs.CONTENT_ENCODING] = GZIP
        if tag is not None:
            tag += GZIP_SUFFIX
            headers[hdrs.ETAG] = f'"{tag}"'
    has_state = tag is not None or isinstance(response, Streamed)
    if not (has_state and request.method in _READS and is_current(request, tag)):
        return is_compressed
    response.set_status(304)
    if isinstance(response, web.Response):
        response.body = None
    for name in _OF_CONTENT:
        headers.pop(name, None)
    return False


async def finish_head(
    cors: Cors,
    deadlines: Deadlines,
    stopping: Event,
    request: web.Request,
    response: web.StreamResponse,
) -> None:
    """Complete the head of a response that is about to be sent."""
    headers, version = response.headers, request.version
    headers[_SERVER] = "registry"  # without a version, which would reveal known vulnerabilities
    headers[_REQUEST_ID] = request_id(request)
    for name, value in _COMMON:
        headers.setdefault(name, value)
    if response.__class__ is not web.Response:  # the client determines how long a stream takes
        deadlines.stop()
    if cors.is_on:
        cors.add_headers(request, headers)
    is_last = (
        stopping.is_set()
        # aiohttp takes the last trailer of a chunked body for a field of the next request, which
        # may be that of another client behind a proxy.
        or hdrs.TRANSFER_ENCODING in request.headers
        # HTTP/1.0 has no other end of a stream (RFC 9112, 6.3).
        or (version == HttpVersion10 and response.content_length is None)
        or version not in VERSIONS
    )
    if is_last:
        response.force_close()
        headers[hdrs.CONNECTION] = "close"

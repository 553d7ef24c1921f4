"""Error documents (JSON:API 1.0, Errors), with the id under which the log has the request."""

import logging
from collections.abc import Callable, Mapping
from http.client import responses

from aiohttp import hdrs, web
from multidict import CIMultiDict

from registry.access.token_errors import InvalidToken, KeysUnavailable
from registry.access.token_form import redact
from registry.http.app_keys import PROXIES
from registry.http.responses import common_headers, request_id
from registry.http.service_urls import UI_PATH
from registry.jsonapi.content_negotiation import MEDIA_TYPE
from registry.jsonapi.documents import encode_errors
from registry.jsonapi.error_objects import MAX_ERRORS, READ_ONLY, ApiError, ApiErrors, quoted
from registry.jsonapi.error_types import (
    BodyTooLarge,
    DiskFull,
    IdempotencyKeyReused,
    InternalError,
    InvalidField,
    InvalidStoredRecord,
    IssuerUnavailable,
    MalformedRequest,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    PreconditionFailed,
    QueryTimedOut,
    RequestTimeout,
    ResultTooLarge,
    ServiceUnavailable,
    TokenRejected,
    ValueTaken,
)
from registry.jsonapi.resource_objects import resource_path
from registry.storage import (
    BulkheadFull,
    DiskNearlyFull,
    DuplicateValue,
    FingerprintMismatch,
    InvalidRecord,
    QueryTimeout,
    ReadOnlyAttribute,
    RecordNotFound,
    StorageError,
    StoredResultTooLarge,
    VersionConflict,
)

_WITHOUT_DETAILS: Mapping[type[StorageError], Callable[[], ApiError]] = {
    VersionConflict: PreconditionFailed,
    InvalidRecord: InvalidStoredRecord,
    FingerprintMismatch: IdempotencyKeyReused,
    StoredResultTooLarge: ResultTooLarge,
}

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
    for member in errors.errors:
        headers.update(member.headers)
    response = web.Response(
        status=errors.status,
        body=encode_errors(errors.errors, request_id(request)),
        content_type=MEDIA_TYPE,
        headers=headers,
    )
    if isinstance(error, web.HTTPException):
        response.cookies.update(error.cookies)
    is_broken = any(isinstance(one, MalformedRequest | RequestTimeout) for one in errors.errors)
    # Where the next request begins is not known, nor whether a body still follows.
    if is_broken or (hdrs.EXPECT in request.headers and not request.content.is_eof()):
        response.force_close()
    return response


def raw_error_response(error: ApiError, id_: str) -> bytes:
    """Return an error response as bytes, for a connection that has not received a whole head.

    id_: that of the request.
    """
    body = encode_errors([error], id_)
    _log.info("%s -> %d %s", id_, error.status, error, extra={"request_id": id_})
    headers = {
        **common_headers(id_),
        hdrs.CONTENT_TYPE: MEDIA_TYPE,
        hdrs.CONTENT_LENGTH: str(len(body)),
        hdrs.CONNECTION: "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {error.status} {error.title}\r\n{lines}\r\n".encode() + body


def log_error(request: web.BaseRequest, error: Exception) -> ApiErrors:
    """Log an exception; return the errors to report."""
    errors = _api_errors(request, error)
    # Truncated, so that the line has its end as well.
    text, sender = "%s %.160a %s -> %d %.160a", [request_id(request)]
    is_denied = any(hdrs.WWW_AUTHENTICATE in one.headers for one in errors.errors)
    if is_denied and isinstance(request, web.Request):
        # A text of its own, as of lines with the same one the log omits some.
        text = "%s %.160a %s from %s -> %d %.160a"
        sender.append(request.app[PROXIES].client_address(request))
    _log.log(
        logging.ERROR if errors.status >= 500 else logging.INFO,
        text,
        request.method,
        redact(request.raw_path),
        *sender,
        errors.status,
        redact(str(errors)),
        exc_info=error if any(isinstance(one, InternalError) for one in errors.errors) else None,
        extra={"request_id": request_id(request)},
    )
    return errors


def _api_errors(request: web.BaseRequest, error: Exception) -> ApiErrors:
    match error:
        case ApiErrors():
            return error
        case ApiError():
            return ApiErrors([error])
        case InvalidToken() | KeysUnavailable():
            return ApiErrors([_from_access_error(error)])
        case StorageError():
            return from_storage_error(error)
        case web.HTTPException():
            return ApiErrors([_from_http_exception(request, error)])
    return ApiErrors([InternalError()])


def _from_access_error(error: InvalidToken | KeysUnavailable) -> ApiError:
    if isinstance(error, InvalidToken):
        return TokenRejected(error.reason)
    return IssuerUnavailable(str(error), error.seconds)


def from_storage_error(error: StorageError) -> ApiErrors:
    """Return the errors to report to the client: 404 per missing id, 409 to 422, 500 or 503."""
    match error:
        case RecordNotFound():
            missing = error.missing[:MAX_ERRORS]
            return ApiErrors([NotFound.resource(error.type, *id_) for id_ in missing])
        case ReadOnlyAttribute():
            return ApiErrors([InvalidField(READ_ONLY, pointer=one) for one in error.pointers])
    return ApiErrors([_from_single_error(error)])


def _from_single_error(error: StorageError) -> ApiError:
    match error:
        case DuplicateValue():
            # Whoever may write a type may read it, so the link needs no scope of its own.
            about = None if error.id is None else resource_path(error.resource, error.id)
            return ValueTaken(error.resource.type, error.attribute, error.pointer, about)
        case BulkheadFull():
            return Overloaded(str(error), error.seconds)
        case DiskNearlyFull():
            return DiskFull(error.reserve)
        case QueryTimeout():
            return QueryTimedOut(error.seconds)
    return _WITHOUT_DETAILS.get(type(error), ServiceUnavailable)()


def _from_http_exception(request: web.BaseRequest, error: web.HTTPException) -> ApiError:
    path = quoted(request.path)
    match error:
        case web.HTTPNotFound():
            return NotFound(f"There is nothing at {path}; {UI_PATH}/ describes all paths.")
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            detail = f"{path} supports {allowed}, not {error.method}."
            return MethodNotAllowed(detail, headers={hdrs.ALLOW: allowed})
        case web.HTTPRequestEntityTooLarge():
            return BodyTooLarge(request.client_max_size)
    result = ApiError(error.reason)
    result.status, result.title = error.status, responses.get(error.status, "HTTP error")
    result.code = result.title.lower().replace(" ", "_").replace("-", "_")
    return result

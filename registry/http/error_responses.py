"""Error documents (JSON:API 1.0, Errors), with the id under which the log has the request."""

import logging
from http.client import responses

from aiohttp import hdrs, web
from multidict import CIMultiDict

from registry.access.principal import InvalidToken, KeysUnavailable, redact
from registry.http.addresses import UI_PATH
from registry.http.app_keys import ADDRESSES
from registry.http.responses import common_headers, request_id
from registry.jsonapi import error_types as errors
from registry.jsonapi.documents import encode_errors
from registry.jsonapi.error_objects import ApiError, RequestError, quoted
from registry.protocol import MEDIA_TYPE

_log = logging.getLogger("registry")


def error_response(request: web.BaseRequest, error: Exception) -> web.Response:
    """Log an exception, and return its error document; HTTPExceptions keep their headers."""
    reported = log_error(request, error)
    headers = CIMultiDict(common_headers(request_id(request)))
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
    is_broken = any(isinstance(one, broken) for one in reported.errors)
    # Where the next request begins is not known, nor whether a body still follows.
    if is_broken or (hdrs.EXPECT in request.headers and not request.content.is_eof()):
        response.force_close()
    return response


def log_error(request: web.BaseRequest, error: Exception) -> RequestError:
    """Log an exception; return the errors to report."""
    reported = _request_error(request, error)
    # Truncated, so that the line has its end as well.
    text, sender = "%s %.160a %s -> %d %.160a", [request_id(request)]
    is_defect = any(isinstance(one, errors.InternalError) for one in reported.errors)
    is_stop = any(isinstance(one, errors.ServiceStopping) for one in reported.errors)
    is_denied = any(hdrs.WWW_AUTHENTICATE in one.headers for one in reported.errors)
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

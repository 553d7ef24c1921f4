"""The id of a request: in its response, in error objects, and in the log."""

import re
from collections.abc import Mapping
from random import getrandbits

from aiohttp import web
from multidict import istr

from registry.protocol import REQUEST_ID

_SENT_ID, _TRACEPARENT = istr(REQUEST_ID), istr("traceparent")
"""Header names that are looked up faster than other strings."""

_ID = re.compile(r"[!-~]{1,128}")

_TRACE = re.compile(
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
"""Version ff is invalid, and only later versions than 00 may have further parts."""

_KEY = web.RequestKey("request_id", str)


def request_id(request: web.BaseRequest) -> str:
    """Return the id of a request: the one sent, or a new one, which is not a secret."""
    try:
        id_: str = request[_KEY]
    except KeyError:
        headers = request.headers
        is_sent = _SENT_ID in headers or _TRACEPARENT in headers
        id_ = (sent_id(headers) if is_sent else None) or f"{getrandbits(128):032x}"
        request[_KEY] = id_
    return id_


def sent_id(headers: Mapping[str, str]) -> str | None:
    """Return the valid id that a request has in `X-Request-ID`, else that of its trace, if any."""
    sent = headers.get(_SENT_ID)
    return sent if sent is not None and _ID.fullmatch(sent) else trace_id(headers)


def trace_id(headers: Mapping[str, str]) -> str | None:
    """Return the trace id in `traceparent` (W3C Trace Context, 3.2); None if it is malformed."""
    match = _TRACE.fullmatch(headers.get(_TRACEPARENT, ""))
    return match[1] if match else None

"""The ids by which a client or a proxy follows a request: `X-Request-ID`, and `traceparent`."""

import re
from collections.abc import Mapping

from multidict import istr

from registry.http.header_names import REQUEST_ID

SENT_ID, TRACEPARENT = istr(REQUEST_ID), istr("traceparent")
"""Names by which headers are looked up faster than by other strings."""

_ID = re.compile(r"[!-~]{1,128}")

_TRACEPARENT = re.compile(
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
"""Version ff is invalid, and only later versions than 00 may have further parts."""


def sent_id(headers: Mapping[str, str]) -> str | None:
    """Return the id that a request brings along; None if it has none or only malformed ones.

    The id in `X-Request-ID`, of 1 to 128 visible ASCII characters, precedes that of the trace.
    """
    sent = headers.get(SENT_ID)
    return sent if sent is not None and _ID.fullmatch(sent) else trace_id(headers)


def trace_id(headers: Mapping[str, str]) -> str | None:
    """Return the trace id in `traceparent` (W3C Trace Context, 3.2); None if it is malformed."""
    match = _TRACEPARENT.fullmatch(headers.get(TRACEPARENT, ""))
    return match[1] if match else None

"""What a view answers with: a response that is whole when it is made."""

from __future__ import annotations

import random
from collections.abc import Mapping

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, HttpVersion11

REQUEST_ID_HEADER = "X-Request-ID"

# As texts alone: names that compare without regard to case take twice as long to be written.
_LENGTH, _DATE = str(hdrs.CONTENT_LENGTH), str(hdrs.DATE)
_ALWAYS = f"{hdrs.VARY}: {hdrs.ACCEPT}\r\n{hdrs.SERVER}: {SERVER_SOFTWARE}\r\n"


class DocumentResponse(web.StreamResponse):
    """A response that leaves in one write, head and body.

    headers: what aiohttp and the service do not add to every response; nothing in them is checked,
    so that no text of a client may stand there. Signals of aiohttp do not see it: what they do to
    other responses takes longer than all that a view does to find and show a resource.
    """

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(status=status, headers=headers)
        self._content = body

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        """Send the response."""
        self._keep_alive = request.keep_alive
        head = self._head(request)
        body = b"" if request.method == hdrs.METH_HEAD else self._content
        await request.writer.write(head.encode() + body)
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing, as all is sent."""

    def _head(self, request: web.BaseRequest) -> str:
        version, lasting = request.version, request.keep_alive
        lines = [f"{name}: {value}\r\n" for name, value in self.headers.items()]
        if self.status != 304:  # of which RFC 9110 wants none
            lines.append(f"{_LENGTH}: {len(self._content)}\r\n")
        if lasting is not (version >= HttpVersion11):  # which says the same without a header
            lines.append(f"{hdrs.CONNECTION}: {'keep-alive' if lasting else 'close'}\r\n")
        return (
            f"HTTP/{version.major}.{version.minor} {self.status} {self.reason}\r\n"
            f"{''.join(lines)}"
            f"{REQUEST_ID_HEADER}: {new_request_id()}\r\n"
            f"{_DATE}: {rfc822_formatted_time()}\r\n"
            f"{_ALWAYS}\r\n"
        )


def new_request_id() -> str:
    """Return an id under which the log has a request."""
    return random.randbytes(16).hex()  # noqa: S311 - it has to differ, not to be secret

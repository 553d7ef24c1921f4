"""The access log: an entry for each request that has ended.

An entry has the template of the route instead of the path, and nothing of the query string or the
body, so that no id, filter or attribute value is logged.
"""

import logging
from collections.abc import Mapping

from aiohttp import web

from registry.http import ACCESS_LOG
from registry.http.app_keys import PRINCIPAL
from registry.http.proxies import TrustedProxies
from registry.http.responses import request_id
from registry.http.trace_context import trace_id


class AccessLog:
    """Passes the entries to the logger of the access log."""

    def __init__(self, proxies: TrustedProxies) -> None:
        self._proxies = proxies
        self._log = logging.getLogger(ACCESS_LOG)

    def write(
        self,
        request: web.BaseRequest,
        route: str,
        response: web.StreamResponse | None,
        seconds: float,
    ) -> None:
        """Write the entry of a request. response: None if it was not sent as a whole."""
        principal, sent = request.get(PRINCIPAL), request.writer.output_size
        # Only streams send anything before their end, and they begin with this status.
        begun = 200 if sent else None
        self.write_entry(
            {
                "request_id": request_id(request),
                "trace_id": trace_id(request.headers),
                "method": request.method,
                "route": route,
                "status": begun if response is None else response.status,
                "aborted": response is None,
                "milliseconds": round(seconds * 1_000, 3),
                "bytes": sent,
                "client": principal.id if principal else None,
                "remote": self._proxies.client_address(request) or None,
            }
        )

    def write_entry(self, fields: Mapping[str, object]) -> None:
        """Write an entry with these fields."""
        self._log.info(Entry(fields))


class Entry(dict[str, object]):
    """The fields of an entry; as text `name=value` with spaces between them, `-` for None."""

    def __str__(self) -> str:
        return " ".join(f"{name}={_text(value)}" for name, value in self.items())


def _text(value: object) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else "".join(str(value).split())

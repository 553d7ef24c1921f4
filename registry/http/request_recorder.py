"""The record of requests that have ended: in the metrics, and in the access log if it is on.

An entry of the log has the template of the route instead of the path, and nothing of the query
string or the body, so that no id, filter or attribute value is logged.
"""

import logging
from typing import TypeAlias

from aiohttp import hdrs, web
from prometheus_client import Histogram

from registry.http import ACCESS_LOG
from registry.http.access_control import PRINCIPAL
from registry.http.addresses import Addresses
from registry.http.request_headers import request_id, trace_id
from registry.metrics import REQUESTS

NO_ROUTE = "none"
"""The route of requests to unknown paths, and of malformed requests."""

OTHER_METHOD = "other"
"""The method of requests whose method is unknown, to aiohttp or at all."""

ABORTED = "aborted"
"""The status of requests whose response was not sent as a whole."""

_log = logging.getLogger(ACCESS_LOG)

_Key: TypeAlias = tuple[web.AbstractResource | None, str, int]
"""Route, method and status; 0 if the response was aborted."""


class Entry(dict[str, object]):
    """The fields of an entry; as text `name=value` with spaces between them, `-` for None."""

    def __str__(self) -> str:
        return " ".join(f"{name}={_text(value)}" for name, value in self.items())


def _text(value: object) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else "".join(str(value).split())


class RequestRecorder:
    """Observes the time of each request. addresses: for the access log; None if it is off."""

    def __init__(self, addresses: Addresses | None) -> None:
        self._addresses = addresses
        self._samples: dict[_Key, Histogram] = {}

    def record(
        self, request: web.BaseRequest, response: web.StreamResponse | None, seconds: float
    ) -> None:
        """Record a request. response: None if it was not sent as a whole."""
        try:  # isinstance is slow for an abstract class such as BaseRequest
            resource = request.match_info.route.resource  # type: ignore[attr-defined] # of Request
        except (AssertionError, AttributeError):  # it was refused before any routing
            resource = None
        key = resource, request.method, 0 if response is None else response.status
        sample = self._samples.get(key)
        if sample is None:
            sample = self._sample(key)
        sample.observe(seconds)
        if self._addresses is None:
            return
        principal, sent = request.get(PRINCIPAL), request.writer.output_size
        # Only streams send anything before their end, and they begin with this status.
        begun = 200 if sent else None
        fields = {
            "request_id": request_id(request),
            "trace_id": trace_id(request.headers),
            "method": request.method,
            "route": _template(resource),
            "status": begun if response is None else response.status,
            "aborted": response is None,
            "milliseconds": round(seconds * 1_000, 3),
            "bytes": sent,
            "client": principal.id if principal else None,
            "remote": self._addresses.client_address(request) or None,
        }
        _log.info(Entry(fields))

    def _sample(self, key: _Key) -> Histogram:
        """Return the sample of a request; only those of known methods are kept by their key."""
        resource, method, status = key
        is_known = method in hdrs.METH_ALL
        labels = _template(resource), method if is_known else OTHER_METHOD, str(status or ABORTED)
        sample = REQUESTS.labels(*labels)
        if is_known:
            self._samples[key] = sample
        return sample


def _template(resource: web.AbstractResource | None) -> str:
    return NO_ROUTE if resource is None else resource.canonical

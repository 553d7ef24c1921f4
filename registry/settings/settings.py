"""The validated settings of one service."""

import os
import sys
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from registry.access.urls import is_loopback
from registry.installation import DATA_DIR
from registry.jsonapi.pagination import PageSizes
from registry.settings.parser import flag
from registry.settings.values import (
    MAX_WORKERS,
    address,
    attribute_name,
    base_url,
    database_name,
    host_name,
    integer,
    issuer_url,
    network,
    one_of,
    origin,
    seconds,
    worker_count,
)

_OTHER_SECONDS = 0.5
"""Time that a request may take by default in addition to its wait and its query. With the defaults
of those, it gets a response within 10 s even without a database."""

CORES = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
"""The cores that this process may use; the default limits scale with them."""

_count = integer(1, 999_999)


@dataclass(frozen=True, slots=True)
class Settings:
    """The validated settings of one service.

    The flag of `data_dir` is `--data-dir`, its environment variable `REGISTRY_DATA_DIR`. Each
    annotation names the parser of the text and has the description in `--help`. A setting whose
    default is a tuple has any number of values: its flag can be repeated, and its variable has them
    separated by commas.
    """

    mongodb_uri: Annotated[
        str | None, str, "replica set or sharded cluster to use instead of an embedded mongod"
    ] = None
    database: Annotated[str, database_name, "name of the database"] = "registry"
    data_dir: Annotated[Path, Path, "data directory of the embedded mongod"] = DATA_DIR
    mongod: Annotated[Path | None, Path, "path of the mongod to embed"] = None
    host: Annotated[str, address, "address to listen on; :: for all of IPv4 and IPv6"] = "127.0.0.1"
    port: Annotated[int, integer(0, 65_535), "port to listen on; 0 picks a free one"] = 8080
    workers: Annotated[int, worker_count, f"number of worker processes, 1 to {MAX_WORKERS}"] = 1
    public_url: Annotated[
        str | None, base_url, "base URL under which clients reach the service"
    ] = None
    auth: Annotated[
        str,
        one_of("auto", "on", "off"),
        "require access tokens: on, off, or auto, which is off on loopback addresses",
    ] = "auto"
    tls_certificate: Annotated[
        Path | None, Path, "PEM file with the certificate chain for TLS; reloaded on SIGHUP"
    ] = None
    tls_key: Annotated[Path | None, Path, "PEM file with the private key of the certificate"] = None
    allowed_host: Annotated[
        tuple[str, ...], host_name, "further host name that requests may be sent to; repeatable"
    ] = ()
    cors_origin: Annotated[
        tuple[str, ...],
        origin,
        "origin whose pages may use the service (CORS), * for all; repeatable",
    ] = ()
    trusted_proxy: Annotated[
        tuple[IPv4Network | IPv6Network, ...],
        network,
        "address or network whose X-Forwarded headers are used; repeatable",
    ] = ()
    unique: Annotated[
        tuple[str, ...],
        attribute_name,
        "attribute of which no two resources may have the same value; repeatable",
    ] = ()

    oidc_issuer: Annotated[
        str | None, issuer_url, "OpenID Connect issuer whose JWT access tokens are accepted"
    ] = None
    oidc_audience: Annotated[
        str | None, str, "audience that these tokens are for, such as the public URL"
    ] = None
    oidc_scope_claim: Annotated[str, str, "claim of these tokens that has the scopes"] = "scope"
    access_log: Annotated[
        str, one_of("on", "off"), "on: log each request to standard error when it has ended"
    ] = "off"
    log_format: Annotated[str, one_of("text", "json"), "format of log lines: text or json"] = "text"
    metrics_port: Annotated[
        int | None,
        integer(0, 65_535),
        "port for /metrics alone, on the same host; none: /metrics is on the port of the API",
    ] = None

    compression: Annotated[
        str, one_of("on", "off"), "compress responses of 1,000 bytes or more: on or off"
    ] = "on"
    page_size: Annotated[int, _count, "page size unless the request sets one"] = 50
    largest_page: Annotated[int, _count, "maximum page size"] = 1_000
    most_operations: Annotated[int, _count, "maximum atomic operations per request"] = 1_000
    query_seconds: Annotated[
        float, seconds, "time limit of a query with a filter or sort, in seconds"
    ] = 5.0

    small_requests: Annotated[
        int, _count, "reads by id, pages along an index and small writes in progress per worker"
    ] = 1_000 * CORES
    heavy_queries: Annotated[
        int,
        _count,
        "queries that no index serves, and deep numbered pages, in progress per worker",
    ] = max(1, CORES // 2)
    streams: Annotated[int, _count, "responses with a whole collection in progress per worker"] = (
        8 * CORES
    )
    large_transactions: Annotated[
        int, _count, "writes of more than 100 resources in progress per worker"
    ] = max(1, CORES // 2)
    large_bodies: Annotated[
        int,
        _count,
        "requests in progress per worker whose body of more than 50 kB arrives in parts",
    ] = 32 * CORES
    large_documents: Annotated[
        int, _count, "requests in progress per worker whose body of more than 50 kB has arrived"
    ] = 2 * CORES
    queue_length: Annotated[
        int, integer(0, 999_999), "requests that may wait for each of these limits"
    ] = 2_000
    queue_seconds: Annotated[float, seconds, "how long a request may wait, in seconds"] = 4.0
    request_seconds: Annotated[
        float | None,
        seconds,
        "time until a response begins, in seconds; none: 0.5 more than the wait and a query",
    ] = None

    @property
    def requires_tokens(self) -> bool:
        """Whether requests need an access token."""
        return self.auth == "on" or (self.auth == "auto" and not is_loopback(self.host))

    @property
    def is_published(self) -> bool:
        """Whether settings say that clients of other machines use the service."""
        host = urlsplit(self.public_url).hostname if self.public_url else None
        is_public = host is not None and not is_loopback(host)
        return is_public or bool(self.trusted_proxy or self.oidc_issuer)

    @property
    def scheme(self) -> str:
        """The scheme of the URLs of the service: `https` with TLS, otherwise `http`."""
        return "https" if self.tls_certificate else "http"

    @property
    def response_seconds(self) -> float:
        """Seconds from the arrival of a request until its response has to begin."""
        return self.request_seconds or self.queue_seconds + self.query_seconds + _OTHER_SECONDS

    @property
    def sizes(self) -> PageSizes:
        """The default and maximum page size; the default never exceeds the maximum."""
        return PageSizes(min(self.page_size, self.largest_page), self.largest_page)

    def contradiction(self) -> str | None:
        """Return what is wrong with settings that are valid one by one."""
        if self.response_seconds < self.queue_seconds + self.query_seconds:
            text = ", ".join(
                f"{flag(name)} {getattr(self, name):g}"
                for name in ("request_seconds", "queue_seconds", "query_seconds")
            )
            return f"{text}: the first is less than the sum of the other two"
        if bool(self.oidc_issuer) != bool(self.oidc_audience):
            return "--oidc-issuer and --oidc-audience require each other"
        if bool(self.tls_certificate) != bool(self.tls_key):
            return "--tls-certificate and --tls-key: set both or neither"
        return None

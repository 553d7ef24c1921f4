"""Requests of a client, and the resources, related resources and errors in their responses.

Requests are repeated while that is safe, bounded in time and size, and go to one host only.
"""

import asyncio
import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypeAlias

import orjson
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, hdrs
from yarl import URL

from registry import protocol

Document: TypeAlias = Mapping[str, Any]

Headers: TypeAlias = Mapping[str, str | None]
"""Fields to send; those that are None are left out."""

Reply: TypeAlias = tuple[Any, Mapping[str, str]]
"""The document of a response, None if it has none, and its headers."""

Parameters: TypeAlias = Sequence[tuple[str, str]]

Upload: TypeAlias = Callable[[], AsyncIterable[bytes]]
"""Returns a body, in pieces."""

_SILENCE_SECONDS = 45
"""How long a stream may be silent: the change feed sends its position every 15 s."""


@dataclass(unsafe_hash=True, slots=True)
class Resource:
    """A resource as it was read; equal to any of the same type and id.

    `computer["serial"]` is an attribute. `computer.owner` is what a relationship leads to, if the
    response shows that: a resource, None, or a list. What is not included has no attributes.
    counts: the numbers of members of relationships that were counted. etag: of the version that was
    read, None if it is not known.
    """

    type: str
    id: str
    attributes: dict[str, Any] = field(default_factory=dict, compare=False)
    related: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    etag: str | None = field(default=None, compare=False, repr=False)
    counts: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    def __getitem__(self, name: str) -> Any:
        """Return an attribute. Raises KeyError if it was not read."""
        return self.attributes[name]

    def __getattr__(self, name: str) -> Any:
        """Return what a relationship leads to. Raises AttributeError if it was not read."""
        if name in Resource.__slots__ or name.startswith("_"):
            raise AttributeError(name)  # copy and pickle ask for them before any field is set
        if name not in self.related:
            raise AttributeError(f"{self.type} {self.id} was read without {name!r}: see `include`")
        return self.related[name]


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A change: `add`, `update` or `remove`, and the resource with the fields that changed.

    position: from where to continue after this change; within a transaction, before all of it.
    meta: `updated_at` and `updated_by`.
    """

    op: str
    resource: Resource
    position: str
    meta: Document


class RegistryError(Exception):
    """A request has failed; the message says why in one line.

    status: of the response, None without one. errors: its error objects (JSON:API 1.0, Error
    Objects). code, detail, pointer, parameter: of the first. request_id: for the service's log.
    retry_after: seconds that the service asks to wait for.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        document: Any = None,
    ) -> None:
        super().__init__(message)
        headers = headers or {}
        self.status, self.request_id = status, headers.get(protocol.REQUEST_ID)
        after = headers.get("Retry-After", "")
        self.retry_after = int(after[:9]) if after.isdecimal() else None
        errors = member(document, "errors")
        self.errors: Sequence[Any] = errors if isinstance(errors, list) else ()
        self.code: str | None = member(errors, 0, "code")
        self.detail: str | None = member(errors, 0, "detail")
        self.pointer: str | None = member(errors, 0, "source", "pointer")
        self.parameter: str | None = member(errors, 0, "source", "parameter")


class Gone(RegistryError):
    """The changes after a position are not kept, or it is one of another database."""


class Conflict(RegistryError):
    """Somebody else has changed the resource (status 412), or has its unique value (status 409).

    read: the resource as it was read, None for a new one. sent: the fields that were not stored.
    stored: the resource as it is stored, or for 409 the one that has the value; None if it cannot
    be read.
    """

    read: Resource | None = None
    sent: Mapping[str, Any] = {}
    stored: Resource | None = None


ERRORS = {
    "invalid_position": Gone,
    "position_expired": Gone,
    "precondition_failed": Conflict,
    "value_taken": Conflict,
}
"""By the code of an error object; other codes are a RegistryError."""


def member(value: Any, *path: str | int) -> Any:
    """Return a part of a document, None if there is none."""
    try:
        for step in path:
            value = value[step]
    except (LookupError, TypeError):
        return None
    return value


@contextmanager
def reading_response() -> Iterator[None]:
    """Raise RegistryError for what is not a response of the service."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError):
        raise RegistryError("not a registry: its response is not a document of one", 200) from None


@reading_response()
def linked_resources(document: Any) -> list[Resource]:
    """Return the resources in `data`, which lead to those in `included`."""
    known: dict[tuple[str, str], Resource] = {}

    def resource_of(identifier: Any) -> Resource:
        key = identifier["type"], identifier["id"]
        return known.setdefault(key, Resource(*key))

    def linked(data: Any) -> Any:
        if isinstance(data, list):
            return list(map(resource_of, data))
        return data and resource_of(data)

    primary = document["data"] if isinstance(document["data"], list) else [document["data"]]
    for shown in [*primary, *document.get("included", ())]:
        resource = resource_of(shown)
        resource.attributes |= shown.get("attributes", {})
        for name, relationship in shown.get("relationships", {}).items():
            if "data" in relationship:
                resource.related[name] = linked(relationship["data"])
            if (count := member(relationship, "meta", "count")) is not None:
                resource.counts[name] = count
    return list(map(resource_of, primary))


@reading_response()
def resource_change(text: bytes, position: str) -> ResourceChange:
    """Return a change, which is an operation (JSON:API, Atomic Operations)."""
    change = orjson.loads(text)
    (resource,) = linked_resources({"data": change.get("data") or change["ref"]})
    return ResourceChange(change["op"], resource, position, change.get("meta", {}))


class Transport:
    """Sends requests to the service at a base URL; all methods raise RegistryError.

    A request without a response, or refused for the moment, is repeated for some seconds. Its
    limits are attributes: subclasses and tests may set others.

    timeout_seconds: how long a request waits for its response. delays: seconds before each
    repetition; a service that restarts is back within them. max_delay: the longest `Retry-After`
    that it waits for. max_bytes: of a document, many times a page of 1,000 resources with what they
    include.
    """

    timeout_seconds: float = 30
    delays: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0)
    max_delay: float = 30.0
    max_bytes: int = 2**26

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = f"{base_url(url)}/"
        # To compress responses would take more of the service's time than to send them.
        self._headers = {hdrs.ACCEPT_ENCODING: "identity", hdrs.CONTENT_TYPE: protocol.MEDIA_TYPE}
        if token:
            self._headers[hdrs.AUTHORIZATION] = f"Bearer {token}"
        self._session: ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = ClientSession(self._url, headers=self._headers, json_serialize=json_text)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session:
            await self._session.close()

    async def download(
        self,
        path: str,
        headers: Headers,
        query: Parameters,
        upload: Upload | None = None,
        *,
        is_repeatable: bool = True,
    ) -> AsyncGenerator[bytes]:
        """Yield the body of a response to `Accept` in pieces, as they arrive.

        upload: returns the body of a POST, for each attempt; None for a GET. is_repeatable: whether
        a request without a response is repeated. Raises RegistryError, also if the connection ends
        before the body.
        """
        is_begun, method = False, hdrs.METH_POST if upload else hdrs.METH_GET
        for delay in (*self.delays, None):
            try:
                options = {"params": query, "data": upload and upload()}
                async with self._response(method, path, headers, **options) as response:
                    async for piece in response.content.iter_any():
                        is_begun = True
                        yield piece
                break
            except RegistryError as error:
                if is_begun:
                    reason = f"the service ended its response to /{path} early: see its log"
                    raise RegistryError(reason) from None
                await self._wait(error, delay if is_repeatable or error.status else None)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Headers | None = None,
        params: Parameters = (),
    ) -> Reply:
        """Return the response to a request that was executed, after repetitions if needed.

        path: relative to the base URL. body: sent as JSON. headers: what `Prefer` asks for must
        be applied (RFC 7240).
        """
        headers = headers or {}
        for delay in (*self.delays, None):
            try:
                request = self._response(method, path, headers, json=body, params=params)
                async with request as response:
                    document = await self._document(path, response)
                break
            except RegistryError as error:
                await self._wait(error, delay)
        applied = response.headers.get(protocol.PREFERENCE_APPLIED, "").split(", ")
        preferred = headers.get(protocol.PREFER)
        if preferred and not {*preferred.split(", ")} <= {*applied}:
            reason = f"the service, an earlier version, has executed /{path} without {preferred}"
            raise RegistryError(reason, response.status, response.headers)
        return document, response.headers

    @asynccontextmanager
    async def _response(
        self, method: str, path: str, headers: Headers, **options: Any
    ) -> AsyncIterator[ClientResponse]:
        """Yield a response to be read, of the media type of the service, or that of `Accept`.

        With the latter, it has any length. Raises RegistryError, also if the connection is lost
        while the response is read.
        """
        if self._session is None:
            raise RuntimeError("the client is not open: use it in `async with Client(...) as ...:`")
        accepted, limit = headers.get(hdrs.ACCEPT), self.timeout_seconds
        options |= {
            "headers": {name: value for name, value in headers.items() if value},
            "timeout": ClientTimeout(None if accepted else limit, None, _SILENCE_SECONDS, limit),
            "allow_redirects": False,
        }
        try:
            async with self._session.request(method, path, **options) as response:
                expected = accepted or protocol.MEDIA_TYPE
                if response.status != 204 and response.content_type != expected:
                    await self._document(path, response)  # raises the error for a refusal
                    reason = f"not a registry: the response of /{path} is not {expected}"
                    raise RegistryError(reason, response.status)
                yield response
        except TimeoutError:
            reason = f"no response from the service within {self.timeout_seconds} s"
            raise RegistryError(reason) from None
        except (ClientError, OSError) as error:
            reason, advice = " ".join(str(error).split()), "is it running, is the URL correct?"
            raise RegistryError(f"cannot reach the service ({advice}): {reason}") from None

    async def _wait(self, error: RegistryError, delay: float | None) -> None:
        """Wait before a request is repeated; raise the error if it is not repeated any more."""
        after = error.retry_after or 0
        if delay is None or after > self.max_delay or not is_temporary(error):
            raise error
        await asyncio.sleep(max(delay, after))

    async def _document(self, path: str, response: ClientResponse) -> Any:
        """Return the document of a response, None without one. Raises the error for a refusal."""
        body, status, document = bytearray(), response.status, None
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self.max_bytes:
                raise RegistryError(f"/{path} has more than {self.max_bytes >> 20} MiB", status)
        with suppress(orjson.JSONDecodeError):
            document = orjson.loads(body)
        if status // 100 == 2:
            if status != 204 and not isinstance(document, dict):
                raise RegistryError(
                    f"not a registry: the response of /{path} is not a document", status
                )
            return document
        location, code = response.headers.get(hdrs.LOCATION), member(document, "errors", 0, "code")
        target = location and f"nothing is sent to {location}"
        detail = member(document, "errors", 0, "detail") or target
        message = f"/{path} failed with status {status}{f': {detail}' if detail else ''}"
        raise ERRORS.get(str(code), RegistryError)(message, status, response.headers, document)


def is_temporary(error: RegistryError) -> bool:
    """Return whether the service may respond to the same request later."""
    return error.status in {None, 503} and error.code != "disk_full"


def base_url(text: str) -> str:
    """Return a base URL without a slash at its end. Raises ValueError."""
    url = URL(text)
    if url.user is not None or url.password is not None:
        raise ValueError("a base URL has no user or password: access tokens are sent apart from it")
    if url.scheme not in {"http", "https"} or not url.host or url.query_string or url.fragment:
        raise ValueError(f"{text!r} is not a base URL such as http://127.0.0.1:8080")
    return text.rstrip("/")


# orjson would write null for NaN, and has no integers of more than 64 bits.
json_text = partial(json.dumps, ensure_ascii=False, allow_nan=False)

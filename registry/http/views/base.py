"""The base classes of views: reading a request, and responding with a document."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeAlias, TypeVar

from aiohttp import hdrs, web

from registry.compound.include_resolver import resolve
from registry.http.app_keys import DEADLINES, LIMITS, PRINCIPAL, PROXIES, REPOSITORY, SETTINGS
from registry.http.compression import GZIP, compresses, gzipped
from registry.http.deadlines import Deadlines
from registry.http.decoding import decoded
from registry.http.etags import (
    check_if_match,
    excluded_versions,
    gzip_etag,
    make_etag,
    matches_if_none_match,
    matching_versions,
)
from registry.http.idempotency import idempotency_key
from registry.http.responses import DocumentResponse
from registry.http.urls import absolute_url
from registry.jsonapi import content_negotiation
from registry.jsonapi.authorization import (
    Requirement,
    authorize,
    required_by_method,
    required_by_query,
)
from registry.jsonapi.content_negotiation import MEDIA_TYPE
from registry.jsonapi.documents import PLAIN, Compound, encode_document, written_linkage
from registry.jsonapi.errors import (
    BodyTooLarge,
    ErrorCollector,
    MalformedRequest,
    NotFound,
    PreconditionFailed,
    RequestTimeout,
)
from registry.jsonapi.links import resource_path
from registry.jsonapi.query import EVERYTHING, Query, Scope, parse, reject_parameters
from registry.jsonapi.request_documents import Change
from registry.jsonapi.resource_objects import resource_objects
from registry.model.attributes.identifier import parse_id
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.offloading import MAX_INLINE_BYTES, MAX_INLINE_OBJECTS, offload, pause
from registry.settings import Settings
from registry.storage.errors import VersionConflict
from registry.storage.idempotency import IdempotencyKey
from registry.storage.records import Versions, version_of
from registry.storage.repository import Repository
from registry.storage.snapshot import Snapshot

_Handler: TypeAlias = "Callable[[DocumentView], Coroutine[None, None, web.StreamResponse]]"
_Query = TypeVar("_Query")
_Document = TypeVar("_Document")
_Written = TypeVar("_Written")
_LONG_TARGET = 1_000
"""The queries of longer request targets, of which some take milliseconds, are parsed one per
iteration of the event loop, and not at all if their clients have disconnected by then."""

_NO_HEADERS: Mapping[str, str] = {}


class DocumentView(web.View):
    """A view of JSON:API documents.

    graph: all types. types: those that every request to the path reads or writes. requirements: by
    method, what that requires.
    """

    graph: ClassVar[Graph]
    types: ClassVar[tuple[Resource, ...]] = ()
    handlers: ClassVar[Mapping[str, _Handler]]
    requirements: ClassVar[Mapping[str, Sequence[Requirement]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        names = {name: name.lower() for name in sorted(hdrs.METH_ALL)}
        cls.handlers = {name: getattr(cls, low) for name, low in names.items() if hasattr(cls, low)}
        cls.requirements = {name: required_by_method(name, cls.types) for name in cls.handlers}

    def __await__(self) -> Generator[None, None, web.StreamResponse]:
        """Call the handler of the method. Raises Unavailable if it takes too long."""
        handler = self.handlers.get(self.request.method)
        if handler is None:
            raise web.HTTPMethodNotAllowed(self.request.method, self.handlers)
        deadlines = self.deadlines
        task = deadlines.start()
        try:
            if len(self.request.raw_path) > _LONG_TARGET:
                yield from pause().__await__()
            return (yield from handler(self).__await__())
        finally:
            deadlines.end(task)

    @property
    def repository(self) -> Repository:
        """The repository of the service."""
        return self.request.app[REPOSITORY]

    @property
    def deadlines(self) -> Deadlines:
        """The deadlines of all requests; that of this one has started."""
        return self.request.app[DEADLINES]

    @property
    def settings(self) -> Settings:
        """The settings of the service."""
        return self.request.app[SETTINGS]

    @property
    def author(self) -> str | None:
        """The name of the principal that sends the request; None if nobody has to be known."""
        principal = self.request.get(PRINCIPAL)
        return None if principal is None else principal.name

    @property
    def url(self) -> str:
        """The absolute URL as requested."""
        return absolute_url(self.request, self.settings.public_url, self.request.app[PROXIES])

    async def options(self) -> web.Response:
        """Respond with the methods of this path in `Allow` (RFC 9110, 9.3.7)."""
        return web.Response(status=204, headers={hdrs.ALLOW: ", ".join(self.handlers)})

    def read_query(self, scope: Scope) -> Query:
        """Negotiate the media type and return the parsed query string.

        Raises NotAcceptable, UnsupportedMediaType, or as `parse_query` does.
        """
        self.negotiate()
        return self.parse_query(scope)

    def parse_query(self, scope: Scope) -> Query:
        """Return the parsed query string.

        Raises ApiErrors for invalid parameters, else for those that require scopes that the access
        token lacks.
        """
        url = self.request.rel_url
        # Parsing an empty query string as well takes 9 % more CPU time for reading one person.
        if not url.raw_query_string:
            return EVERYTHING
        query = parse(url.query.items(), scope)
        self.authorize(required_by_query(query, scope))
        return query

    def authorize(self, requirements: Iterable[Requirement]) -> None:
        """Raise ApiErrors for what the access token does not allow, if one is needed."""
        principal = self.request.get(PRINCIPAL)
        if principal is not None:
            authorize(principal, requirements)

    def negotiate(self, extension: str | None = None) -> None:
        """Check `Accept` and `Content-Type`. extension: the URI of the allowed extension.

        Raises NotAcceptable or UnsupportedMediaType (JSON:API 1.0, Content Negotiation).
        """
        headers = self.request.headers
        if accept := headers.getall(hdrs.ACCEPT, ()):
            content_negotiation.check_accept(accept, extension)
        content_negotiation.check_parameters(headers.get(hdrs.CONTENT_TYPE), extension)

    def reject_parameters(self) -> None:
        """Raise ApiErrors with an InvalidParameter for each parameter."""
        reject_parameters(self.request.query)

    async def read_request(
        self,
        parse_query: Callable[[], _Query],
        load: Callable[[bytes], _Document],
        required_by: Callable[[_Document], Iterable[Requirement]],
        extension: str | None = None,
    ) -> tuple[_Query, _Document]:
        """Return the parsed query string and the loaded document.

        required_by: returns what the document requires beside its path. extension: as for
        `read_body`. Raises as `read_body` does, else ApiErrors with the errors of both, else those
        for what the access token does not allow.
        """
        body, errors = await self.read_body(extension), ErrorCollector()
        with errors:
            query = parse_query()
        with errors:
            if len(body) <= MAX_INLINE_BYTES:
                document = load(body)
            else:
                document = await offload(
                    partial(load, body), size=len(body), limit=MAX_INLINE_BYTES
                )
        errors.raise_any()
        self.authorize(required_by(document))
        return query, document

    async def read_keyed_request(
        self,
        parse_query: Callable[[], _Query],
        load: Callable[[bytes], _Document],
        required_by: Callable[[_Document], Iterable[Requirement]],
        extension: str | None = None,
    ) -> tuple[_Query, _Document, IdempotencyKey | None]:
        """Return what `read_request` does, and the idempotency key of the request if it has one.

        Raises as `read_request` does, and InvalidIdempotencyKey.
        """
        query, (document, key) = await self.read_request(
            parse_query,
            lambda body: (load(body), idempotency_key(self.request, body)),
            lambda loaded: required_by(loaded[0]),
            extension,
        )
        return query, document, key

    async def read_body(self, extension: str | None = None) -> bytes:
        """Return the body. extension: the URI of the extension that its media type must name.

        Raises UnsupportedMediaType, BodyTooLarge, RequestTimeout or MalformedRequest.
        """
        request = self.request
        content_negotiation.check_content_type(request.headers.get(hdrs.CONTENT_TYPE), extension)
        content_negotiation.check_content_encoding(request.headers.get(hdrs.CONTENT_ENCODING))
        limits = request.app[LIMITS]
        if (request.content_length or 0) > limits.body_bytes:
            raise BodyTooLarge(limits.body_bytes)
        try:
            body = await self._receive_body(limits.arrival_seconds)
        except TimeoutError as error:
            raise RequestTimeout("body", limits.arrival_seconds) from error
        except web.RequestPayloadError as error:
            raise MalformedRequest("The body cannot be decoded as its headers declare.") from error
        if len(body) > limits.body_bytes:
            raise BodyTooLarge(limits.body_bytes)
        return decoded(body, request.headers.get(hdrs.CONTENT_ENCODING), limits.body_bytes)

    async def _receive_body(self, seconds: float) -> bytes:
        content = self.request.content
        if content.is_eof():  # most arrive with the head: creating takes 7.5 % more CPU otherwise
            return content.read_nowait()
        self.deadlines.stop()
        async with asyncio.timeout(seconds):
            body = await self.request.read()
        self.deadlines.start()
        return body


class TypeView(DocumentView):
    """A view below the path of a type.

    scope: of the query parameters, for a single resource of the type.
    """

    resource: ClassVar[Resource]
    scope: ClassVar[Scope]

    @property
    def resource_id(self) -> int:
        """The id in the path. Raises NotFound if it is not a valid id."""
        id_ = parse_id(self.request.match_info["id"])
        if id_ is None:
            raise NotFound.resource(self.resource.type, self.request.match_info["id"])
        return id_

    async def respond(
        self,
        encode: Callable[[], bytes],
        size: int,
        record: Record | None = None,
        *,
        status: int = 200,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> DocumentResponse:
        """Return a document with its entity tag, or 304 if the client has it already.

        encode: returns the document. size: how many resources and identifiers it has. record: the
        resource that it represents, or whose linkage it is. Raises PreconditionFailed for a read
        whose `If-Match` does not have the tag (RFC 9110, 13.2.2).
        """
        if size <= MAX_INLINE_OBJECTS:
            body, etag = self._encode(encode, record)
        else:
            body, etag = await offload(partial(self._encode, encode, record), size=size)
        request = self.request
        if is_compressed := compresses(request, len(body)):
            etag = gzip_etag(etag)
        all_headers: dict[str, str] = {hdrs.ETAG: f'"{etag}"', **headers}
        if request.method in {hdrs.METH_GET, hdrs.METH_HEAD}:
            check_if_match(request, etag)
            if matches_if_none_match(request, etag):
                return DocumentResponse(304, b"", all_headers)
        all_headers[hdrs.CONTENT_TYPE] = MEDIA_TYPE
        if is_compressed:
            all_headers[hdrs.CONTENT_ENCODING] = GZIP
            body = await gzipped(body)
        return DocumentResponse(status, body, all_headers)

    def _encode(self, encode: Callable[[], bytes], record: Record | None) -> tuple[bytes, str]:
        """Return a document and its entity tag."""
        body = encode()
        return body, make_etag(body, self.resource, record)

    async def write(self, id_: int, write: Callable[[Versions], Awaitable[_Written]]) -> _Written:
        """Write a resource or its links if the preconditions hold, and return the result.

        write: takes the versions that the resource may have. `If-Match` precedes `If-None-Match`
        (RFC 9110, 13.2.2). Raises PreconditionFailed or VersionConflict if one of them is false,
        RecordNotFound if there is no such resource, and what `write` raises.
        """
        versions = matching_versions(self.request, self.resource, id_)
        if hdrs.IF_NONE_MATCH not in self.request.headers:
            return await write(versions)
        excluded = excluded_versions(self.request, self.resource, id_)
        if versions is not None and excluded is not None:
            return await write(versions - excluded)
        while excluded is None or excluded:
            current = version_of(await self.find(self.repository.snapshot()))
            if excluded is None or current in excluded:
                raise PreconditionFailed
            with suppress(VersionConflict):  # changed since it was read
                return await write(frozenset({current}))
        return await write(None)

    async def find(self, snapshot: Snapshot) -> Record:
        """Return the record of the resource that the path names. Raises RecordNotFound."""
        return await snapshot.get(self.resource, self.resource_id)

    async def resolve(
        self, resource: Resource, records: Sequence[Record], query: Query, snapshot: Snapshot
    ) -> Compound:
        """Return the relationships and included resources of primary records."""
        return await resolve(resource, records, query, snapshot, self.graph)

    async def respond_with_resource(
        self,
        record: Record,
        query: Query,
        snapshot: Snapshot,
        change: Change | None = None,
        status: int = 200,
    ) -> DocumentResponse:
        """Respond with a single resource. change: shows the relationships that were written."""
        resource, compound = self.resource, PLAIN
        if query.include is not None:
            compound = await self.resolve(resource, [record], query, snapshot)
        if change and change.linkages:
            shown = {**compound.linkage.get(resource.type, {})}
            for name, written in written_linkage(record, change).items():
                shown[name] = {**written, **shown.get(name, {})}
            compound = replace(compound, linkage={**compound.linkage, resource.type: shown})
        path = resource_path(resource, record["_id"])

        def encode() -> bytes:
            (data,) = resource_objects(resource, [record], compound.linkage, query)
            return encode_document(data, compound, query, self.graph, {"self": path})

        size = compound.size + (change.size if change else 0)
        headers: dict[str, str] = {hdrs.LOCATION: path} if status == 201 else {}
        return await self.respond(encode, size, record, status=status, headers=headers)

"""The base classes of the views of documents: dispatching, reading requests, responding."""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeAlias, TypeVar

from aiohttp import hdrs, web

from registry.compound import CompoundStream, only, resolve
from registry.http.access_control import AUTHENTICATOR, PRINCIPAL, bearer_token
from registry.http.addresses import query_of
from registry.http.app_keys import ADDRESSES, DEADLINES, GRAPH, REPOSITORY
from registry.http.compression import MIN_BYTES, GzipWriter, compresses
from registry.http.request_body import read_body
from registry.http.request_headers import (
    Preferences,
    idempotency_key,
    make_etag,
    preconditions,
    read_preferences,
)
from registry.http.responses import POSITION
from registry.http.sending import MAX_WRITE, write_parts
from registry.jsonapi import content_negotiation
from registry.jsonapi.authorization import (
    Requirement,
    authorize,
    readable_with,
    required_by_method,
    required_by_query,
)
from registry.jsonapi.changes import NO_CHANGE, Change, Identifier, Verb, Write
from registry.jsonapi.documents import (
    PLAIN,
    Compound,
    Envelope,
    LinkageById,
    Part,
    encode_document,
    encode_stream,
    path_of,
    resource_objects,
    written_linkage,
)
from registry.jsonapi.error_objects import ErrorCollector
from registry.jsonapi.error_types import InvalidMerge, InvalidPreference, NotFound
from registry.jsonapi.query import (
    NO_PARAMETERS,
    Query,
    QueryScope,
    parse_query,
    reject_parameters,
)
from registry.model.graph import Graph
from registry.model.implicit_attributes import parse_id
from registry.model.record import ID, Record
from registry.model.resource_type import Relationship, ResourceType
from registry.offloading import MAX_INLINE_BYTES, MAX_INLINE_OBJECTS, offload, pause
from registry.protocol import MEDIA_TYPE
from registry.storage import Bulkhead, IdempotencyKey, Snapshot, WriteResult

Encoded: TypeAlias = tuple[bytes, str]
"""A document and its entity tag."""

_Handler: TypeAlias = "Callable[[DocumentView], Coroutine[None, None, web.StreamResponse]]"
_Document = TypeVar("_Document")

_LONG_TARGET = 1_000
"""Characters of a request target. Longer queries may take milliseconds to parse: one is parsed per
iteration of the event loop, and none whose client has disconnected by then."""

_READING = (hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS)
"""The methods of paths that cannot be written."""

_NO_HEADERS: Mapping[str, str] = {}
JSONAPI: Mapping[str, str] = {hdrs.CONTENT_TYPE: MEDIA_TYPE}


class Endpoint:
    """A path, its view, and what it stands for.

    scope: of the query parameters for a single resource; None for operations. relationship: if the
    path is that of one. handlers, requirements: of requests, by their method.
    """

    def __init__(
        self,
        path: str,
        view: "type[DocumentView]",
        scope: QueryScope | None = None,
        relationship: Relationship | None = None,
    ) -> None:
        self.path, self.view = path, view
        self.scope, self.relationship = scope, relationship
        self.handlers = view.handlers
        types: list[ResourceType] = []
        if scope is not None:
            types += readable_with(scope.resource, scope.graph)
            if relationship is not None:
                types += readable_with(scope.graph[relationship.target], scope.graph)
            if (relationship or scope.resource).read_only:
                self.handlers = {name: view.handlers[name] for name in _READING}
        self.requirements = {name: required_by_method(name, types) for name in self.handlers}


ENDPOINTS: web.AppKey[Mapping[web.AbstractRoute, Endpoint]] = web.AppKey("endpoints")


class DocumentView(web.View):
    """A view of JSON:API documents. handlers: its methods, by their names in requests."""

    __slots__ = ("request",)  # replaces a property of aiohttp, which is a call for each access

    request: web.Request
    handlers: ClassVar[Mapping[str, _Handler]]
    _entered: Mapping[Bulkhead, str | None] = {}  # the client of each slot that is occupied

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        names = {name: name.lower() for name in sorted(hdrs.METH_ALL)} | {hdrs.METH_HEAD: "get"}
        cls.handlers = {name: getattr(cls, low) for name, low in names.items() if hasattr(cls, low)}

    def __init__(self, request: web.Request) -> None:
        self.request = request
        self.app = app = request.app
        self.endpoint = app[ENDPOINTS][request.match_info.route]
        self.repository = app[REPOSITORY]
        self.deadlines = app[DEADLINES]

    def __await__(self) -> Generator[None, None, web.StreamResponse]:
        """Call the handler of the method."""
        request = self.request
        handlers = self.endpoint.handlers
        handler = handlers.get(request.method)
        if handler is None:
            raise web.HTTPMethodNotAllowed(request.method, handlers)
        try:
            if len(request.raw_path) > _LONG_TARGET:
                yield from pause().__await__()
            return (yield from handler(self).__await__())
        finally:
            for bulkhead, client in self._entered.items():
                bulkhead.release(client)

    @staticmethod
    def required_by(request: web.Request) -> Sequence[Requirement]:
        """Return what the path and the method of a request require."""
        endpoint = request.app[ENDPOINTS][request.match_info.route]
        return endpoint.requirements.get(request.method, ())  # none: 405

    @property
    def author(self) -> str | None:
        """The id of the principal that sends the request; None without authentication."""
        principal = self.request.get(PRINCIPAL)
        return None if principal is None else principal.id

    @property
    def url(self) -> str:
        """The absolute URL as requested."""
        return self.app[ADDRESSES].url(self.request)

    @property
    def client(self) -> str:
        """The network of the client, for the slots that it occupies."""
        return self.app[ADDRESSES].client_network(self.request)

    async def options(self) -> web.Response:
        """Respond with the methods of this path in `Allow` (RFC 9110, 9.3.7)."""
        return web.Response(status=204, headers={hdrs.ALLOW: ", ".join(self.endpoint.handlers)})

    async def position_header(self, snapshot: Snapshot) -> dict[str, str]:
        """Return the header with the position of a snapshot in the change feed."""
        time = snapshot.time or await self.repository.now()
        return {POSITION: self.repository.positions.encode(time)}

    def negotiate(self, extension: str | None = None) -> None:
        """Raise NotAcceptable or UnsupportedMediaType (JSON:API 1.0, Content Negotiation)."""
        headers = self.request.headers
        if accept := headers.getall(hdrs.ACCEPT, ()):
            content_negotiation.check_accept(accept, extension)
        if (content_type := headers.get(hdrs.CONTENT_TYPE)) and content_type != MEDIA_TYPE:
            content_negotiation.check_parameters(content_type, extension)

    def read_query(self, scope: QueryScope | None) -> Query:
        """Return the parsed query string. scope: None if the path supports no parameters.

        Raises ApiErrors for invalid parameters, else for parameters that the access token does not
        allow.
        """
        # Parsing an empty query string as well takes 9 % more CPU time for reading one person.
        if not self.request.rel_url.raw_query_string:
            return NO_PARAMETERS
        if scope is None:
            reject_parameters(query_of(self.request))
            return NO_PARAMETERS
        query = parse_query(query_of(self.request).items(), scope)
        self.authorize(required_by_query(query, scope))
        return query

    async def read_request(
        self,
        load: Callable[[bytes], _Document],
        required_by: Callable[[_Document, Graph], Iterable[Requirement]],
        scope: QueryScope | None = None,
        extension: str | None = None,
        preferences: Preferences = Preferences(),  # noqa: B008 - immutable
    ) -> tuple[Query, _Document, IdempotencyKey | None]:
        """Return the parsed query string, the loaded document and the idempotency key, if any.

        required_by: returns what the document requires beside its path. Raises as `negotiate`,
        `read_body`, InvalidMerge, Overloaded, or InvalidToken for a token that has ended
        meanwhile; else ApiErrors with all errors of query, document and key, else those for what
        the access token does not allow.
        """
        self.negotiate(extension)
        if preferences.merges and hdrs.IF_MATCH in self.request.headers:
            raise InvalidMerge  # it is not known yet which resource is meant
        bulkheads, errors = self.repository.bulkheads, ErrorCollector()
        admit = partial(self._enter, bulkheads.large_bodies, awaits_client=True)
        is_late = not self.request.content.is_eof()
        body = await read_body(self.request, admit, extension)
        if is_large := len(body) > MAX_INLINE_BYTES:
            await self._enter(bulkheads.large_documents, awaits_client=False)
        # Not always: 2 % of the CPU time of creating a person.
        has_waited = is_late or is_large
        if has_waited and PRINCIPAL in self.request and (token := bearer_token(self.request)):
            await self.app[AUTHENTICATOR].verify(token)

        def load_keyed() -> tuple[_Document, IdempotencyKey | None]:
            return load(body), idempotency_key(self.request, body, preferences)

        with errors:
            query = self.read_query(scope)
        with errors:
            document, key = await offload(load_keyed, size=len(body), limit=MAX_INLINE_BYTES)
        errors.raise_any()
        self.authorize(required_by(document, self.app[GRAPH]))
        return query, document, key

    def authorize(self, requirements: Iterable[Requirement]) -> None:
        """Raise ApiErrors for what the access token does not allow, if one is needed."""
        principal = self.request.get(PRINCIPAL)
        if principal is not None:
            authorize(principal, requirements)

    async def _enter(self, bulkhead: Bulkhead, *, awaits_client: bool) -> None:
        """Occupy a slot until the request ends. awaits_client: if the client decides when."""
        if bulkhead not in self._entered:
            client = self.client if awaits_client else None
            await bulkhead.acquire(client)
            self._entered = {**self._entered, bulkhead: client}


class ResourceView(DocumentView):
    """A view below the path of a type.

    scope: of the query parameters, for a single resource of the type. graph: all types.
    """

    def __init__(self, request: web.Request) -> None:
        super().__init__(request)
        assert self.endpoint.scope is not None  # noqa: S101 - for mypy: it is not that of operations
        self.scope = self.endpoint.scope
        self.resource, self.graph = self.scope.resource, self.scope.graph

    @property
    def resource_id(self) -> int:
        """The id in the path. Raises NotFound if it is not a valid id."""
        text = self.request.match_info["id"]
        id_ = parse_id(text)
        if id_ is None:
            raise NotFound.resource(self.resource.type, text)
        return id_

    async def write(
        self,
        verb: Verb,
        change: Change = NO_CHANGE,
        key: IdempotencyKey | None = None,
    ) -> WriteResult:
        """Write the resource or its links if the preconditions hold, and return the result.

        Raises InvalidPreference for a dry run, PreconditionFailed, and what the repository raises.
        """
        if read_preferences(self.request).rolls_back:
            raise InvalidPreference
        resource, id_ = self.resource, self.resource_id
        allowed, excluded = preconditions(self.request, resource, id_)
        target = Identifier(id_, str(id_), None)
        write = Write(verb, resource, target, change, allowed, excluded)
        (result,) = await self.repository.write([write.written_by(self.author)], key)
        return result

    async def written_record(self, result: WriteResult, query: Query, snapshot: Snapshot) -> Record:
        """Return the resource that the response to a write shows.

        With `include`, it is shown as of the commit, as what is included. Raises NotFound if
        another request has deleted it in the same transaction, Unavailable, or Overloaded.
        """
        if query.include and not result.is_replayed:
            return await snapshot.get(self.resource, result.record[ID])
        return result.record

    async def respond_with_resource(
        self,
        record: Record,
        query: Query,
        snapshot: Snapshot,
        change: Change | None = None,
        status: int = 200,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> web.StreamResponse:
        """Respond with a single resource. change: of a write, whose relationships are shown."""
        resource = self.resource
        path = path_of(resource, record["_id"])
        if status == 201:
            headers = {hdrs.LOCATION: path, **headers}
        compound: Compound | None = PLAIN
        if query.include is not None:
            compound = await resolve(resource, [record], query, snapshot, self.graph)
        if compound is None:
            pieces = self._pieces_of(record, query, snapshot, change)
            shown = None if change else snapshot
            return await self.stream(pieces, shown, {**JSONAPI, **headers}, status)
        linkage = _with_written(compound.linkage, resource, record, change)

        def encode() -> bytes:
            (data,) = resource_objects(resource, [record], linkage, query)
            return encode_document(data, compound, query, self.graph, {"self": path})

        size = (0 if compound is PLAIN else compound.size) + (change.size if change else 0)
        encoded = await self.encode(encode, size, record)
        # The time of a write may be later than what its response shows.
        return await self.respond(encoded, None if change else snapshot, status, headers)

    async def _pieces_of(
        self, record: Record, query: Query, snapshot: Snapshot, change: Change | None
    ) -> AsyncGenerator[bytes]:
        """Yield the document of a resource that has too many related ones to be in memory."""
        resource = self.resource
        envelope = Envelope({"self": path_of(resource, record["_id"])}, many=False)
        stream = CompoundStream(resource, query, snapshot, self.graph)

        async def primary() -> AsyncGenerator[Part]:
            async for part in stream.primary(only([record])):
                yield replace(part, linkage=_with_written(part.linkage, resource, record, change))

        async with (
            aclosing(stream.included()) as included,
            aclosing(encode_stream(primary(), included, query, envelope)) as pieces,
        ):
            async for piece in pieces:
                yield piece

    async def stream(
        self,
        pieces: AsyncGenerator[bytes],
        snapshot: Snapshot | None,
        headers: Mapping[str, str],
        status: int = 200,
    ) -> web.StreamResponse:
        """Respond with the pieces of a body, without an entity tag.

        snapshot: what was read; None for a write. Raises BulkheadFull for too many streams.
        """
        async with (
            self.repository.bulkheads.streams.slot(self.client),
            aclosing(pieces),
        ):
            return await self.send(pieces, snapshot, headers, status)

    async def send(
        self,
        pieces: AsyncGenerator[bytes],
        snapshot: Snapshot | None,
        headers: Mapping[str, str],
        status: int = 200,
    ) -> web.StreamResponse:
        """Respond as `stream`, in the slot that the caller has."""
        request = self.request
        response = web.StreamResponse(status=status, headers=headers)
        writer: web.StreamResponse | GzipWriter = response
        # Until the beginning is ready, an error still becomes an error document.
        beginning = await _first_bytes(pieces, MIN_BYTES)
        self.deadlines.stop()
        if snapshot is not None:
            response.headers.update(await self.position_header(snapshot))
        if compresses(request, len(beginning)):
            writer = GzipWriter(response)
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        await write_parts(writer.write, beginning, MAX_WRITE)
        async for piece in pieces:
            await write_parts(writer.write, piece, MAX_WRITE)
        await writer.write_eof()
        return response

    async def encode(
        self,
        encode: Callable[[], bytes],
        size: int,
        record: Record | None = None,
        limit: int = MAX_INLINE_OBJECTS,
    ) -> Encoded:
        """Return a document and its entity tag, computed in a thread if its size exceeds the limit.

        record: the resource that it represents, or whose linkage it is.
        """

        def encode_with_tag() -> Encoded:
            body = encode()
            return body, make_etag(body, self.resource, record)

        return await offload(encode_with_tag, size=size, limit=limit)

    async def respond(
        self,
        encoded: Encoded,
        snapshot: Snapshot | None = None,
        status: int = 200,
        headers: Mapping[str, str] = _NO_HEADERS,
        content: Mapping[str, str] = JSONAPI,
    ) -> web.Response:
        """Return a document with its entity tag.

        snapshot: what was read; None for a write. content: headers that describe the document.
        """
        body, etag = encoded
        all_headers = {hdrs.ETAG: f'"{etag}"', **headers, **content}
        if snapshot is not None:
            all_headers |= await self.position_header(snapshot)
        return web.Response(status=status, body=body, headers=all_headers)


def _with_written(
    linkage: LinkageById, resource: ResourceType, record: Record, change: Change | None
) -> LinkageById:
    """Return the linkage of a document with the relationships that its write has changed."""
    if change is None or not change.linkages:
        return linkage
    shown = {**linkage.get(resource.type, {})}
    for name, written in written_linkage(record, change).items():
        shown[name] = {**written, **shown.get(name, {})}
    return {**linkage, resource.type: shown}


async def _first_bytes(pieces: AsyncIterator[bytes], least: int) -> bytes:
    """Return the beginning of a body: so many bytes at least, unless it is shorter."""
    beginning = b""
    async for piece in pieces:
        beginning += piece
        if len(beginning) >= least:
            break
    return beginning

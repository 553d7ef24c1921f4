"""The base class of views of documents: dispatching and reading a request."""

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, TypeAlias, TypeVar

from aiohttp import hdrs, web

from registry.http.app_keys import (
    AUTHENTICATOR,
    DEADLINES,
    PRINCIPAL,
    PROXIES,
    REPOSITORY,
    SETTINGS,
)
from registry.http.authentication import bearer_token
from registry.http.deadlines import Deadlines
from registry.http.idempotency import idempotency_key
from registry.http.request_body import read_body
from registry.http.urls import absolute_url
from registry.jsonapi import content_negotiation
from registry.jsonapi.authorization import (
    Requirement,
    authorize,
    required_by_method,
    required_by_query,
)
from registry.jsonapi.error_objects import ErrorCollector
from registry.jsonapi.query import (
    NO_PARAMETERS,
    Query,
    QueryScope,
    parse_query,
    reject_parameters,
)
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.offloading import MAX_INLINE_BYTES, offload, pause
from registry.settings import Settings
from registry.storage import Bulkhead, IdempotencyKey, Repository

_Handler: TypeAlias = "Callable[[DocumentView], Coroutine[None, None, web.StreamResponse]]"
_Query = TypeVar("_Query")
_Document = TypeVar("_Document")
_LONG_TARGET = 1_000
"""The queries of longer request targets, of which some take milliseconds, are parsed one per
iteration of the event loop, and not at all if their clients have disconnected by then."""


class DocumentView(web.View):
    """A view of JSON:API documents.

    graph: all types. types: those that every request to the path reads or writes. requirements: by
    method, what that requires.
    """

    graph: ClassVar[Graph]
    types: ClassVar[tuple[ResourceType, ...]] = ()
    handlers: ClassVar[Mapping[str, _Handler]]
    requirements: ClassVar[Mapping[str, Sequence[Requirement]]]
    _entered: Mapping[Bulkhead, str | None] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        names = {name: name.lower() for name in sorted(hdrs.METH_ALL)}
        cls.handlers = {name: getattr(cls, low) for name, low in names.items() if hasattr(cls, low)}
        cls.requirements = {name: required_by_method(name, cls.types) for name in cls.handlers}

    def __await__(self) -> Generator[None, None, web.StreamResponse]:
        """Call the handler of the method. Raises ServiceUnavailable if it takes too long."""
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
            for bulkhead, client in self._entered.items():
                bulkhead.release(client)
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
        """The id of the principal that sends the request; None without authentication."""
        principal = self.request.get(PRINCIPAL)
        return None if principal is None else principal.id

    @property
    def url(self) -> str:
        """The absolute URL as requested."""
        return absolute_url(self.request, self.settings.public_url, self.request.app[PROXIES])

    @property
    def client(self) -> str:
        """The network of the client, for the slots that it occupies."""
        return self.request.app[PROXIES].client_network(self.request)

    async def options(self) -> web.Response:
        """Respond with the methods of this path in `Allow` (RFC 9110, 9.3.7)."""
        return web.Response(status=204, headers={hdrs.ALLOW: ", ".join(self.handlers)})

    def read_query(self, scope: QueryScope) -> Query:
        """Negotiate the media type and return the parsed query string.

        Raises NotAcceptable, UnsupportedMediaType, or as `parse_query` does.
        """
        self.negotiate()
        return self.parse_query(scope)

    def parse_query(self, scope: QueryScope) -> Query:
        """Return the parsed query string.

        Raises ApiErrors for invalid parameters, else for those that require scopes that the access
        token lacks.
        """
        url = self.request.rel_url
        # Parsing an empty query string as well takes 9 % more CPU time for reading one person.
        if not url.raw_query_string:
            return NO_PARAMETERS
        query = parse_query(url.query.items(), scope)
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
        `read_body`. Raises as `read_body` does, BulkheadFull, or InvalidToken if the access token
        has expired or was revoked meanwhile; else ApiErrors with the errors of both, else those for
        what the access token does not allow.
        """
        bulkheads, errors = self.repository.bulkheads, ErrorCollector()
        admit = partial(self._enter, bulkheads.large_bodies, awaits_client=True)
        is_late = not self.request.content.is_eof()
        body = await read_body(self.request, admit, extension)
        if is_large := len(body) > MAX_INLINE_BYTES:
            await self._enter(bulkheads.large_documents, awaits_client=False)
        if is_late or is_large:  # not always: 2 % of the CPU time of creating a person
            await self._check_token()
        with errors:
            query = parse_query()
        with errors:
            document = (
                await offload(partial(load, body), size=len(body)) if is_large else load(body)
            )
        errors.raise_any()
        self.authorize(required_by(document))
        return query, document

    async def _check_token(self) -> None:
        """Raise InvalidToken, or as its verification does, unless the access token still counts."""
        if PRINCIPAL in self.request and (token := bearer_token(self.request)):
            await self.request.app[AUTHENTICATOR].check(token)

    async def _enter(self, bulkhead: Bulkhead, *, awaits_client: bool) -> None:
        """Occupy a slot until the request ends, unless it has one. Raises BulkheadFull.

        awaits_client: whether the client determines how long that is.
        """
        if bulkhead not in self._entered:
            client = self.client if awaits_client else None
            await bulkhead.acquire(client)
            self._entered = {**self._entered, bulkhead: client}

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

"""The base class of the views of documents: they negotiate, parse, receive, authorize and write."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from aiohttp import hdrs, web

from registry.access.authorization import (
    Requirement,
    authorize,
    readable_types,
)
from registry.http.access_control import AUTHENTICATOR, PRINCIPAL, bearer_token
from registry.http.addresses import query_of
from registry.http.app_keys import ADDRESSES, REPOSITORY
from registry.http.request_body import read_body
from registry.http.request_headers import (
    NO_PREFERENCES,
    Preferences,
    idempotency_key,
)
from registry.http.routes import BaseView
from registry.jsonapi import content_negotiation
from registry.jsonapi.changes import Write
from registry.jsonapi.error_objects import ErrorCollector
from registry.jsonapi.error_types import InvalidMerge
from registry.jsonapi.query import NO_PARAMETERS, Query, QueryScope
from registry.jsonapi.query_parameters import parse_query
from registry.jsonapi.query_parser import reject_parameters
from registry.offloading import MAX_INLINE_BYTES, offload
from registry.protocol import MEDIA_TYPE, MERGE, PREFER
from registry.storage import IdempotencyKey, WriteResult

_Document = TypeVar("_Document")


class DocumentView(BaseView):
    """A view of JSON:API documents.

    query: the parsed query string. key: the idempotency key of a document that was received.
    """

    query: Query
    key: IdempotencyKey | None = None

    def __init__(self, request: web.Request) -> None:
        super().__init__(request)
        self.app = request.app
        self.repository = self.app[REPOSITORY]

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

    def negotiate(self, extension: str | None = None) -> None:
        """Raise NotAcceptable or UnsupportedMediaType (JSON:API 1.0, Content Negotiation)."""
        headers = self.request.headers
        if accept := headers.getall(hdrs.ACCEPT, ()):
            content_negotiation.check_accept(accept, extension)
        if (content_type := headers.get(hdrs.CONTENT_TYPE)) and content_type != MEDIA_TYPE:
            content_negotiation.check_parameters(content_type, extension)

    def parse_query(self, scope: QueryScope | None) -> Query:
        """Return the parsed query string. scope: None if the path supports no parameters.

        Raises RequestError for invalid parameters.
        """
        # Parsing an empty query string as well takes 9 % more CPU time for reading one person.
        if not self.request.rel_url.raw_query_string:
            query = NO_PARAMETERS
        elif scope is None:
            reject_parameters(query_of(self.request))
            return NO_PARAMETERS
        else:
            query = parse_query(query_of(self.request).items(), scope)
        if scope is not None and scope.graph.revisions and PRINCIPAL in self.request:
            readable = readable_types(self.request[PRINCIPAL], scope.graph)
            if not readable >= {each.type for each in scope.graph.writable}:
                return replace(query, readable=readable)
        return query

    async def receive(
        self,
        load: Callable[[bytes], _Document],
        scope: QueryScope | None = None,
        preferences: Preferences = NO_PREFERENCES,
        extension: str | None = None,
    ) -> _Document:
        """Return the loaded document; set `query` and `key`.

        scope: None if the path supports no parameters. extension: the URI that the media types must
        name. Checks in this order: preferences, media types, size, token (again after a slow body),
        then query, document and key together. The first that fails is reported: raises
        InvalidMerge, what `read_body` raises, InvalidToken, IssuerUnavailable, or RequestError.
        """
        request = self.request
        if preferences.merges and hdrs.IF_MATCH in request.headers:
            raise InvalidMerge(
                f"`{hdrs.IF_MATCH}` cannot be used with `{PREFER}: {MERGE}`: it is not known in "
                "advance which resource the document updates."
            )
        self.negotiate(extension)
        is_late = not request.content.is_eof()
        body = await read_body(request, extension)
        # Not always: 2 % of the CPU time of creating a person.
        if is_late or len(body) > MAX_INLINE_BYTES:
            await self.verify_token()

        def load_keyed() -> tuple[_Document, IdempotencyKey | None]:
            return load(body), idempotency_key(request, body, preferences)

        errors = ErrorCollector()
        with errors:
            self.query = self.parse_query(scope)
        with errors:
            document, self.key = await offload(load_keyed, size=len(body), limit=MAX_INLINE_BYTES)
        errors.raise_any()
        return document

    async def verify_token(self) -> None:
        """Raise InvalidToken if the token of the request has ended meanwhile; IssuerUnavailable."""
        if PRINCIPAL in self.request and (token := bearer_token(self.request)):
            await self.app[AUTHENTICATOR].verify(token)

    def apply(
        self, writes: Sequence[Write], *, rolls_back: bool = False
    ) -> Awaitable[Sequence[WriteResult]]:
        """Write for the sender of the request. Raises as the repository."""
        return self.repository.write(
            writes, self.key, author=self.author, client=self.client, rolls_back=rolls_back
        )

    def authorize(self, requirements: Iterable[Requirement]) -> None:
        """Raise RequestError for what the access token does not allow, if one is needed."""
        principal = self.request.get(PRINCIPAL)
        if principal is not None:
            authorize(principal, requirements)

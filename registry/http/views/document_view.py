"""The base classes of the views of documents: they receive, parse, authorize and write."""

from collections.abc import (
    Callable,
    Iterable,
)
from dataclasses import replace
from itertools import chain
from typing import ClassVar, Self, TypeVar

from aiohttp import hdrs, web

from registry.http.access_control import AUTHENTICATOR, PRINCIPAL, bearer_token
from registry.http.addresses import query_of
from registry.http.app_keys import ADDRESSES, REPOSITORY
from registry.http.request_body import read_body
from registry.http.request_headers import (
    NO_PREFERENCES,
    Preferences,
    idempotency_key,
    preconditions,
    read_preferences,
)
from registry.http.routes import BaseView, Route
from registry.jsonapi import content_negotiation
from registry.jsonapi.authorization import (
    Requirement,
    authorize,
    required_by_change,
    required_by_query,
)
from registry.jsonapi.change_events import readable_types
from registry.jsonapi.changes import NO_CHANGE, Change, Identifier, Verb, Write
from registry.jsonapi.error_objects import ErrorCollector
from registry.jsonapi.error_types import InvalidMerge, InvalidPreference, NotFound
from registry.jsonapi.query import NO_PARAMETERS, Query, QueryScope
from registry.jsonapi.query_parameters import parse_query
from registry.jsonapi.query_parser import reject_parameters
from registry.model.graph import Graph
from registry.model.implicit_attributes import parse_id
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.offloading import MAX_INLINE_BYTES, offload
from registry.protocol import MEDIA_TYPE
from registry.storage import IdempotencyKey, Snapshot, WriteResult

_Document = TypeVar("_Document")


class DocumentView(BaseView):
    """A view of JSON:API documents."""

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

        Raises ApiErrors for invalid parameters.
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

    async def receive(self, extension: str | None = None) -> bytes:
        """Return the body. extension: the URI that the media types must name.

        Checks in this order: media types, size, token (again after a slow body). The first that
        fails is reported: raises NotAcceptable, UnsupportedMediaType, BodyTooLarge, RequestTimeout,
        MalformedRequest, Overloaded, InvalidToken, KeysUnavailable.
        """
        request = self.request
        self.negotiate(extension)
        is_late = not request.content.is_eof()
        body = await read_body(request, extension)
        # Not always: 2 % of the CPU time of creating a person.
        has_waited = is_late or len(body) > MAX_INLINE_BYTES
        if has_waited and PRINCIPAL in request and (token := bearer_token(request)):
            await self.app[AUTHENTICATOR].verify(token)
        return body

    async def parse(
        self,
        body: bytes,
        load: Callable[[bytes], _Document],
        scope: QueryScope | None = None,
        preferences: Preferences = NO_PREFERENCES,
    ) -> tuple[Query, _Document, IdempotencyKey | None]:
        """Return the query, the loaded document, and the idempotency key if there is one.

        scope: None if the path supports no parameters. Raises ApiErrors with all errors of them.
        """

        def load_keyed() -> tuple[_Document, IdempotencyKey | None]:
            return load(body), idempotency_key(self.request, body, preferences)

        errors = ErrorCollector()
        with errors:
            query = self.parse_query(scope)
        with errors:
            document, key = await offload(load_keyed, size=len(body), limit=MAX_INLINE_BYTES)
        errors.raise_any()
        return query, document, key

    def check_merge(self, preferences: Preferences) -> None:
        """Raise InvalidMerge for `If-Match`: it is not known yet which resource is meant."""
        if preferences.merges and hdrs.IF_MATCH in self.request.headers:
            raise InvalidMerge

    def authorize(self, requirements: Iterable[Requirement]) -> None:
        """Raise ApiErrors for what the access token does not allow, if one is needed."""
        principal = self.request.get(PRINCIPAL)
        if principal is not None:
            authorize(principal, requirements)


class ResourceView(DocumentView):
    """A view below the path of a type.

    scope: of the query parameters, for a single resource of the type. graph: all types.
    """

    scope: ClassVar[QueryScope]
    resource: ClassVar[ResourceType]
    graph: ClassVar[Graph]

    @classmethod
    def of(cls, route: Route) -> type[Self]:
        """Return the view of a route, whose scope is that of a type."""
        bound = super().of(route)
        assert route.scope is not None  # noqa: S101 - for mypy: it is not that of operations
        bound.scope, bound.resource, bound.graph = (
            route.scope,
            route.scope.resource,
            route.scope.graph,
        )
        return bound

    def read_query(self, scope: QueryScope) -> Query:
        """Return the parsed query string, which the access token allows. Raises ApiErrors."""
        query = self.parse_query(scope)
        if query is not NO_PARAMETERS:
            self.authorize(required_by_query(query, scope))
        return query

    @property
    def resource_id(self) -> int:
        """The id in the path. Raises NotFound if it is not a valid id."""
        text = self.request.match_info["id"]
        id_ = parse_id(text)
        if id_ is None:
            raise NotFound.resource(self.resource.type, text)
        return id_

    def authorize_write(self, query: Query, change: Change) -> None:
        """Raise ApiErrors for a query or a document that the access token does not allow."""
        by_query = required_by_query(query, self.scope)
        self.authorize(chain(by_query, required_by_change(change, self.graph)))

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
        (result,) = await self.repository.write([write], key, author=self.author)
        return result

    async def written_record(self, result: WriteResult, query: Query, snapshot: Snapshot) -> Record:
        """Return the resource that the response to a write shows.

        With `include` or counts, it is shown as of the commit, as what is included or counted.
        Raises NotFound if another request has deleted it in the same transaction, Unavailable, or
        Overloaded.
        """
        if (query.include or query.counts) and not result.is_replayed:
            return await snapshot.get(self.resource, result.record[ID])
        return result.record

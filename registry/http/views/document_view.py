"""The base classes of the views of documents: they receive, parse, authorize and write."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from typing import ClassVar, TypeVar

from aiohttp import hdrs, web

from registry.access.authorization import (
    Requirement,
    authorize,
    readable_types,
    required_by_change,
    required_by_query,
)
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
from registry.http.routes import BaseView
from registry.jsonapi import content_negotiation
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

    async def receive(
        self,
        load: Callable[[bytes], _Document],
        scope: QueryScope | None = None,
        preferences: Preferences = NO_PREFERENCES,
        extension: str | None = None,
    ) -> tuple[Query, _Document, IdempotencyKey | None]:
        """Return the query, the loaded document, and the idempotency key if there is one.

        scope: None if the path supports no parameters. extension: the URI that the media types must
        name. Checks in this order: preferences, media types, size, token (again after a slow body),
        then query, document and key together. The first that fails is reported: raises
        InvalidMerge, as `read_body`, InvalidToken, IssuerUnavailable, or ApiErrors.
        """
        request = self.request
        if preferences.merges and hdrs.IF_MATCH in request.headers:
            raise InvalidMerge  # it is not known yet which resource is meant
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
            query = self.parse_query(scope)
        with errors:
            document, key = await offload(load_keyed, size=len(body), limit=MAX_INLINE_BYTES)
        errors.raise_any()
        return query, document, key

    async def verify_token(self) -> None:
        """Raise InvalidToken if the token of the request has ended meanwhile; IssuerUnavailable."""
        if PRINCIPAL in self.request and (token := bearer_token(self.request)):
            await self.app[AUTHENTICATOR].verify(token)

    def authorize(self, requirements: Iterable[Requirement]) -> None:
        """Raise ApiErrors for what the access token does not allow, if one is needed."""
        principal = self.request.get(PRINCIPAL)
        if principal is not None:
            authorize(principal, requirements)


class ResourceView(DocumentView):
    """A view below the path of a type.

    scope: of the query parameters, for a single resource of the type. graph: all types. query: of
    the request. snapshot: what the response shows. change: by the write that is responded to; None
    for a read.
    """

    scope: ClassVar[QueryScope]
    resource: ClassVar[ResourceType]
    graph: ClassVar[Graph]
    query: Query
    snapshot: Snapshot
    change: Change | None = None

    def begin_reading(self, scope: QueryScope) -> None:
        """Set `query` and `snapshot`. Raises as `negotiate`, or ApiErrors."""
        self.negotiate()
        self.query = self.parse_query(scope)
        if self.query is not NO_PARAMETERS:
            self.authorize(required_by_query(self.query, scope))
        self.snapshot = self.repository.snapshot()

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
        self, verb: Verb, change: Change = NO_CHANGE, key: IdempotencyKey | None = None
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

    async def written_record(self, result: WriteResult) -> Record:
        """Return the resource that the response to a write shows; set `change` and `snapshot`.

        With `include` or counts, it is shown as of the commit, as what is included or counted.
        Raises NotFound if another request has deleted it in the same transaction, Unavailable, or
        Overloaded.
        """
        self.change, self.snapshot = result.write.change, self.repository.snapshot(result.time)
        if (self.query.include or self.query.counts) and not result.is_replayed:
            return await self.snapshot.get(self.resource, result.record[ID])
        return result.record

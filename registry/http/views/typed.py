"""The base class of views below the path of a type: responding, and writing conditionally."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeAlias

from aiohttp import hdrs

from registry.compound.include_resolver import resolve
from registry.http.compression import GZIP, compresses, gzipped
from registry.http.etags import (
    check_if_match,
    excluded_versions,
    gzip_etag,
    make_etag,
    matches_if_none_match,
    matching_versions,
)
from registry.http.responses import DocumentResponse
from registry.http.views.document import DocumentView
from registry.jsonapi.changes import Change, Identifier, Versions, Write
from registry.jsonapi.content_negotiation import MEDIA_TYPE
from registry.jsonapi.documents import PLAIN, Compound, encode_document, written_linkage
from registry.jsonapi.error_types import NotFound, PreconditionFailed
from registry.jsonapi.query import Query, QueryScope
from registry.jsonapi.resource_objects import resource_objects, resource_path
from registry.model.attributes.identifier import parse_id
from registry.model.record import Record
from registry.model.resource_type import ResourceType
from registry.offloading import MAX_INLINE_OBJECTS, offload
from registry.storage import IdempotencyKey, Snapshot, VersionConflict, WriteResult, version_of

_NO_HEADERS: Mapping[str, str] = {}

Encoded: TypeAlias = tuple[bytes, str]
"""A document and its entity tag."""


class TypeView(DocumentView):
    """A view below the path of a type.

    scope: of the query parameters, for a single resource of the type.
    """

    resource: ClassVar[ResourceType]
    scope: ClassVar[QueryScope]

    @property
    def identifier(self) -> Identifier:
        """The resource that the path names. Raises NotFound if it is not a valid id."""
        id_ = self.resource_id
        return Identifier(id_, str(id_), None)

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
        """Return a document with its entity tag, as `encode` and `respond_with` do."""
        encoded = await self.encode(encode, size, record)
        return await self.respond_with(encoded, status=status, headers=headers)

    async def encode(
        self,
        encode: Callable[[], bytes],
        size: int,
        record: Record | None = None,
        *,
        limit: int = MAX_INLINE_OBJECTS,
    ) -> Encoded:
        """Return a document and its entity tag.

        encode: returns the document. size: how many resources and identifiers it has, or in
        another unit, that of `limit`, beyond which it is encoded in a thread. record: the resource
        that it represents, or whose linkage it is.
        """
        if size <= limit:
            return self._encode(encode, record)
        return await offload(partial(self._encode, encode, record), size=size, limit=limit)

    async def respond_with(
        self, encoded: Encoded, *, status: int = 200, headers: Mapping[str, str] = _NO_HEADERS
    ) -> DocumentResponse:
        """Return a document with its entity tag, or 304 if the client has it already.

        Raises PreconditionFailed for a read whose `If-Match` does not have the tag (RFC 9110,
        13.2.2).
        """
        body, etag = encoded
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

    def _encode(self, encode: Callable[[], bytes], record: Record | None) -> Encoded:
        """Return a document and its entity tag."""
        body = encode()
        return body, make_etag(body, self.resource, record)

    async def write(self, write: Write, key: IdempotencyKey | None = None) -> WriteResult:
        """Write a resource or its links if the preconditions hold, and return the result.

        `If-Match` precedes `If-None-Match` (RFC 9110, 13.2.2). Raises PreconditionFailed or
        VersionConflict if one of them is false, and what the repository raises.
        """
        id_ = self.resource_id
        versions = matching_versions(self.request, self.resource, id_)
        if hdrs.IF_NONE_MATCH not in self.request.headers:
            return await self._write(write, versions, key)
        excluded = excluded_versions(self.request, self.resource, id_)
        if versions is not None and excluded is not None:
            return await self._write(write, versions - excluded, key)
        while excluded is None or excluded:
            current = version_of(await self.find(self.repository.snapshot()))
            if excluded is None or current in excluded:
                raise PreconditionFailed
            with suppress(VersionConflict):  # changed since it was read
                return await self._write(write, frozenset({current}), key)
        return await self._write(write, None, key)

    async def _write(
        self, write: Write, versions: Versions, key: IdempotencyKey | None
    ) -> WriteResult:
        if versions is not None:
            write = replace(write, versions=versions)
        (result,) = await self.repository.write([write.written_by(self.author)], key)
        return result

    async def find(self, snapshot: Snapshot) -> Record:
        """Return the record of the resource that the path names. Raises RecordNotFound."""
        return await snapshot.get(self.resource, self.resource_id)

    async def resolve(
        self, resource: ResourceType, records: Sequence[Record], query: Query, snapshot: Snapshot
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

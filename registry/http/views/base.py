"""What all views share: from the request to checked input, from a document to the response."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from aiohttp import hdrs, web

from registry.http.app_keys import LIMITS, REPOSITORY, SETTINGS
from registry.http.etags import is_not_modified, make_etag
from registry.http.responses import DocumentResponse
from registry.http.urls import absolute_url
from registry.jsonapi import content_negotiation as media
from registry.jsonapi.errors import (
    BodyTooLarge,
    MalformedRequest,
    RequestTimeout,
)
from registry.jsonapi.query import EVERYTHING, Query, Scope, parse, unknown_parameter
from registry.model.graph import Graph
from registry.model.record import Record
from registry.settings import Settings
from registry.storage.repository import Repository

_NONE: Mapping[str, str] = {}


class DocumentView(web.View):
    """A view of JSON:API documents. graph: all types."""

    graph: ClassVar[Graph]

    @property
    def repository(self) -> Repository:
        """The stored resources."""
        return self.request.app[REPOSITORY]

    @property
    def settings(self) -> Settings:
        """What the service was told at start."""
        return self.request.app[SETTINGS]

    @property
    def url(self) -> str:
        """The absolute URL as requested."""
        return absolute_url(self.request, self.settings.public_url)

    async def options(self) -> web.Response:
        """DocumentResponse with the methods of this path in `Allow`."""
        allowed = sorted(name for name in hdrs.METH_ALL if hasattr(self, name.lower()))
        return web.Response(status=204, headers={hdrs.ALLOW: ", ".join(allowed)})

    def read_query(self, scope: Scope) -> Query:
        """Negotiate the media type and return the checked query string."""
        self.negotiate()
        url = self.request.rel_url
        return parse(url.query.items(), scope) if url.raw_query_string else EVERYTHING

    def negotiate(self, extension: str | None = None) -> None:
        """Check the media types, of which one may carry an extension.

        Raises NotAcceptable or UnsupportedMediaType (JSON:API 1.0, Content Negotiation).
        """
        headers = self.request.headers
        media.check_accept(headers.getall(hdrs.ACCEPT, ()), extension)
        media.check_parameters(headers.get(hdrs.CONTENT_TYPE), extension)

    def refuse_parameters(self) -> None:
        """Raise InvalidParameter if there is one: the answer holds no document to ask more of.

        JSON:API 1.0, Inclusion of Related Resources and Query Parameters.
        """
        for name in self.request.query:
            raise unknown_parameter(name)

    async def read_body(self, extension: str | None = None) -> bytes:
        """Return the body, sent as JSON:API, with this extension if one is named."""
        request = self.request
        media.check_content_type(request.headers.get(hdrs.CONTENT_TYPE), extension)
        media.check_content_encoding(request.headers.get(hdrs.CONTENT_ENCODING))
        limits = request.app[LIMITS]
        if (request.content_length or 0) > limits.body_bytes:
            raise BodyTooLarge(limits.body_bytes)
        try:
            body = await self._arrived(limits.arrival_seconds)
        except TimeoutError as error:
            raise RequestTimeout("body", limits.arrival_seconds) from error
        except web.RequestPayloadError as error:
            raise MalformedRequest("The body is not encoded as its headers say.") from error
        if len(body) > limits.body_bytes:
            raise BodyTooLarge(limits.body_bytes)
        return body

    async def _arrived(self, seconds: float) -> bytes:
        content = self.request.content
        if content.is_eof():  # as nearly always; what waits for more takes ten times as long
            return content.read_nowait()
        async with asyncio.timeout(seconds):
            return await self.request.read()

    def answer(
        self,
        body: bytes,
        record: Record | None = None,
        *,
        status: int = 200,
        headers: Mapping[str, str] = _NONE,
    ) -> DocumentResponse:
        """DocumentResponse with a document and its entity tag, or with 304 if the client has it.

        record: what the document represents, if it is a resource or the linkage of one.
        """
        tag, request = make_etag(body, record), self.request
        sent: dict[str, str] = {hdrs.ETAG: f'"{tag}"', **headers}
        if is_not_modified(request, tag) and request.method in {hdrs.METH_GET, hdrs.METH_HEAD}:
            return DocumentResponse(304, b"", sent)
        sent[hdrs.CONTENT_TYPE] = media.MEDIA_TYPE
        return DocumentResponse(status, body, sent)

"""Example errors of each operation, raised by the code that raises them in the service."""

from collections.abc import Callable, Sequence
from itertools import chain

import orjson

from registry.access.principal import Principal
from registry.access.token_errors import InvalidToken
from registry.access.tokens import check_form
from registry.capacity import Capacity
from registry.http.error_responses import from_storage_error
from registry.http.hosts import AllowedHosts
from registry.http.idempotency_header import parse_key
from registry.http.limits import Limits
from registry.http.proxies import TrustedProxies
from registry.jsonapi import error_types as errors
from registry.jsonapi.authorization import Requirement, authorize
from registry.jsonapi.changes import Mode
from registry.jsonapi.content_negotiation import MEDIA_TYPE, check_accept, check_content_type
from registry.jsonapi.error_objects import DATA, ApiError, ApiErrors, DocumentPosition
from registry.jsonapi.operation_documents import (
    EXTENSION,
    OPERATIONS,
    load_operations,
    operation_position,
)
from registry.jsonapi.query import QueryScope, parse_query, unknown_parameter
from registry.jsonapi.request_documents import load, load_linkage
from registry.jsonapi.resource_objects import resource_path
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.mongod.disk import RESERVE_BYTES
from registry.openapi.parameters import sized_paths
from registry.openapi.schema_objects import Json
from registry.settings import Settings
from registry.storage import Bulkheads


class ErrorExamples:
    """The errors of a service with these settings and limits, one example of each type."""

    def __init__(self, settings: Settings, limits: Limits) -> None:
        self._settings = settings
        self._limits = limits
        self._bulkheads = Bulkheads.of(Capacity.of(settings))
        self._hosts = AllowedHosts(settings, TrustedProxies(()))

    def query(self, scope: QueryScope) -> list[ApiError]:
        """Return the errors of a request with these query parameters."""

        def error(*parameters: tuple[str, str]) -> ApiError:
            return _raised(lambda: parse_query(parameters, scope))

        examples, too_large = [error(("unknown", "1"))], str(scope.sizes.largest + 1)
        if scope.many:
            examples += [
                error(("page[size]", too_large)),
                error(("page[after]", "x"), ("page[before]", "x")),
                errors.QueryTimedOut(self._settings.query_seconds),
            ]
        elif paths := sized_paths(scope):
            examples.append(error(("include", paths[0]), (f"page[{paths[0]}][size]", too_large)))
        return [*examples, *self._any_request()]

    def no_query(self) -> list[ApiError]:
        """Return the errors of a change without query parameters."""
        return [unknown_parameter("unknown"), *self._any_request(), _disk_full()]

    def missing(self, resource: ResourceType) -> list[ApiError]:
        """Return the error for a path or linkage to a resource that does not exist."""
        return [errors.NotFound.resource(resource.type, "999")]

    def preconditions(self) -> list[ApiError]:
        """Return the error for a request whose preconditions do not hold."""
        return [errors.PreconditionFailed()]

    def idempotency(self) -> list[ApiError]:
        """Return the errors of a request with an idempotency key."""
        return [_raised(lambda: parse_key(("",))), errors.IdempotencyKeyReused()]

    def resource(self, resource: ResourceType) -> list[ApiError]:
        """Return the errors of a document with a resource object."""

        def error(data: Json | None) -> ApiError:
            return _raised(lambda: load(orjson.dumps({"data": data}), resource, creating=False))

        unknown = {"type": resource.type, "attributes": {"unknown": "x"}}
        examples = [error(None), error({"type": "other"}), *self._any_body(), error(unknown)]
        return [*examples, *_taken_values(resource, DATA), _disk_full()]

    def linkage(self, relationship: Relationship) -> list[ApiError]:
        """Return the errors of a document with resource linkage."""

        def error(identifier: Json) -> ApiError:
            data = [identifier] if relationship.to_many else identifier
            body = orjson.dumps({"data": data})
            return _raised(lambda: load_linkage(body, relationship, Mode.REPLACE))

        return [
            error({"type": relationship.target}),
            error({"type": "other", "id": "1"}),
            *self._any_body(),
        ]

    def operations(self, graph: Graph) -> list[ApiError]:
        """Return the errors of a document of operations."""
        resource = next(iter(graph.values()))

        def error(**operation: Json | str) -> ApiError:
            body = orjson.dumps({OPERATIONS: [operation]})
            return _raised(lambda: load_operations(body, graph))

        unknown = {"type": resource.type, "attributes": {"unknown": "x"}}
        added = operation_position(0) / "data"
        return [
            *self.no_query(),
            *self.preconditions(),
            *self.idempotency(),
            error(op="unknown"),
            error(op="remove", href="/unknown"),
            error(op="update", href=resource_path(resource, 1), data={"type": "other"}),
            *self._any_body(EXTENSION),
            errors.ResultTooLarge(),
            error(op="add", data=unknown),
            *chain.from_iterable(_taken_values(one, added) for one in graph.values()),
        ]

    def access(self, requirements: Sequence[Requirement]) -> list[ApiError]:
        """Return the errors of a request without a token, with a wrong one, or without scopes."""
        nobody = Principal("", frozenset())
        return [
            errors.AuthenticationRequired(),
            _raised(lambda: check_form("")),
            _raised(lambda: authorize(nobody, requirements)),
        ]

    def _any_request(self) -> list[ApiError]:
        return [
            _unsupported_media_type(),
            _raised(lambda: self._hosts.check_authority("example..com:x")),
            errors.MisdirectedRequest("other.example.org"),
            errors.CrossSiteRequest(),
            _raised(lambda: check_accept((f"{MEDIA_TYPE}; charset=utf-8",))),
            errors.RequestTimeout("head", self._limits.arrival_seconds),
            errors.ExpectationFailed(),
            errors.HeaderFieldsTooLarge(self._limits.fields_bytes),
            errors.InternalError(),
            errors.ServiceUnavailable(),
            *from_storage_error(self._bulkheads.small_requests.wait_error()).errors,
        ]

    def _any_body(self, extension: str | None = None) -> list[ApiError]:
        return [errors.BodyTooLarge(self._limits.body_bytes), _unsupported_media_type(extension)]


def _unsupported_media_type(extension: str | None = None) -> ApiError:
    return _raised(lambda: check_content_type(f"{MEDIA_TYPE}; charset=utf-8", extension))


def _taken_values(resource: ResourceType, position: DocumentPosition) -> list[errors.ValueTaken]:
    """Return the errors for values of unique attributes that another resource has.

    position: of the resource object.
    """
    path = resource_path(resource, 1)
    return [
        errors.ValueTaken(resource.type, name, (position / "attributes" / name).pointer, path)
        for name in resource.unique_attributes
    ]


def _disk_full() -> ApiError:
    return errors.DiskFull(RESERVE_BYTES)


def _raised(call: Callable[[], object]) -> ApiError:
    """Return the error that a call raises, so that the example is what the service sends."""
    try:
        call()
    except ApiError as error:
        return error
    except ApiErrors as several:
        return several.errors[0]
    except InvalidToken as error:
        return errors.TokenRejected(error.reason)
    raise AssertionError("the call must raise an error")

"""Each type of error is the response to a request, as the description says."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from registry.jsonapi import error_types as errors
from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.pagination import BY_ID, Cursors
from registry.jsonapi.pagination import END as END_POSITION
from registry.model.graph import Graph
from registry.openapi.description import describe
from registry.resources import RESOURCES
from registry.settings import Settings
from tests.conftest import HURRIED, LIMITS, Grant, Serve
from tests.support import MEDIA_TYPE, PERSON, Api, new

GRACE = new("person", **PERSON["attributes"], email="grace@example.com")
NAMELESS = new("person", first_name=None)
SENT = {"data": PERSON}
END = Cursors("person", BY_ID).encode(END_POSITION)
JSON, KEY = {"Content-Type": "application/json"}, {"Idempotency-Key": "k"}
MERGE = {"Prefer": "resolution=merge-duplicates"}

REQUESTS: dict[type[ApiError], tuple[str, str, Any, dict[str, str]]] = {
    errors.MalformedDocument: ("POST", "/persons", {"data": None}, {}),
    errors.InvalidParameter: ("GET", "/persons?page[number]=1&page[total]=1", None, {}),
    errors.InvalidPosition: ("GET", "/changes?page[after]=gmRh", None, {}),
    errors.PageTooLarge: ("GET", "/persons?page[size]=1001", None, {}),
    errors.RangeNotSupported: ("GET", f"/persons?page[after]={END}&page[before]={END}", None, {}),
    errors.InvalidIdempotencyKey: (
        "POST",
        "/persons",
        SENT,
        {"Idempotency-Key": "a b"},
    ),
    errors.CrossSiteRequest: ("GET", "/persons", None, {"Sec-Fetch-Site": "cross-site"}),
    errors.InvalidMerge: ("POST", "/persons", {"data": GRACE}, MERGE | {"If-Match": "*"}),
    errors.InvalidPreference: ("DELETE", "/persons/1", None, {"Prefer": "tx=rollback"}),
    errors.NotFound: ("GET", "/persons/999", None, {}),
    errors.MethodNotAllowed: ("PUT", "/persons", None, {}),
    errors.NotAcceptable: ("GET", "/persons", None, {"Accept": f"{MEDIA_TYPE}; charset=utf-8"}),
    errors.TypeConflict: ("POST", "/persons", {"data": PERSON | {"type": "computer"}}, {}),
    errors.ValueTaken: ("POST", "/persons", {"data": GRACE}, {}),
    errors.PreconditionFailed: ("DELETE", "/persons/1", None, {"If-Match": '"stale"'}),
    errors.BodyTooLarge: ("POST", "/persons", b"x" * (2**20 + 1), {}),
    errors.UnsupportedMediaType: ("POST", "/persons", SENT, JSON),
    errors.ExpectationFailed: ("GET", "/persons", None, {"Expect": "200-ok"}),
    errors.MisdirectedRequest: ("GET", "/persons", None, {"Host": "other.example.org"}),
    errors.InvalidField: ("PATCH", "/persons/1", {"data": NAMELESS}, {}),
    errors.InvalidFile: ("POST", "/persons", b"colour\nred\n", {"Content-Type": "text/csv"}),
    errors.IdempotencyKeyReused: ("POST", "/persons", SENT, KEY),
    errors.AuthenticationRequired: ("GET", "/persons", None, {}),
    errors.InvalidToken: ("GET", "/persons", None, {"Authorization": "Bearer x"}),
    errors.InvalidAuthorization: ("GET", "/persons", None, {"Authorization": "Bearer"}),
    errors.InsufficientScope: ("POST", "/persons", SENT, {}),
}
"""A request for each error, with what the service holds in the test."""

RAISED: dict[type[ApiError], Exception] = {
    errors.InternalError: RuntimeError(),
    errors.IssuerUnavailable: errors.IssuerUnavailable(headers=errors.retry_after(5)),
    errors.Unavailable: errors.Unavailable(),
    errors.Overloaded: errors.Overloaded(headers=errors.retry_after(5)),
    errors.DiskFull: errors.DiskFull(),
    errors.QueryTimeout: errors.QueryTimeout(5),
    errors.PositionExpired: errors.PositionExpired(),
    errors.ResultTooLarge: errors.ResultTooLarge(),
    errors.TooManyRelated: errors.TooManyRelated(),
}
"""What the code below the views raises for the other errors; tests of each provoke it."""

HEADERS = {
    errors.MethodNotAllowed: {"Allow"},
    errors.InvalidAuthorization: {"WWW-Authenticate"},
    errors.AuthenticationRequired: {"WWW-Authenticate"},
    errors.InvalidToken: {"WWW-Authenticate"},
    errors.InsufficientScope: {"WWW-Authenticate"},
}
"""The headers of errors, besides `Retry-After` of 503."""

RESPONSES = describe(Graph(RESOURCES), Settings(auth="on"))["components"]["responses"]


def check(error: type[ApiError], status: int, headers: Any, document: Any) -> None:
    """Compare a response with its type and the description."""
    (sent,) = document["errors"]
    assert (status, sent["status"]) == (error.status, str(error.status))
    assert (sent["code"], sent["title"]) == (error.code, error.title)
    if error.status != errors.MethodNotAllowed.status:
        described = RESPONSES[f"Error{status}"]
        shown = {"WWW-Authenticate", "Retry-After"} & headers.keys()
        assert shown <= described["headers"].keys()
        # A value can be taken only where attributes are unique.
        assert error is errors.ValueTaken or f"- `{error.code}`: " in described["description"]
    assert headers.keys() >= HEADERS.get(error, {"Retry-After"} if status == 503 else set())


@pytest.mark.parametrize("error", REQUESTS, ids=lambda error: error.code)
async def test_an_error_is_of_its_type(
    error: type[ApiError], serve: Serve, settings: Settings, grant: Grant
) -> None:
    method, path, body, headers = REQUESTS[error]
    is_access = 400 < error.status < 404 and error is not errors.CrossSiteRequest
    if error is errors.ValueTaken:
        settings = replace(settings, unique=("person.email",))
    api = await serve(settings=settings)
    assert (await api.request("POST", "/persons", {"data": GRACE}, KEY)).status == 201
    if is_access or error is errors.InvalidAuthorization:
        api = await serve(settings=replace(settings, auth="on"))
    if error is errors.InsufficientScope:
        headers = {"Authorization": f"Bearer {await grant('persons:read')}"}
    response = await api.request(method, path, body, headers)
    check(error, response.status, response.headers, response.document)


async def test_a_failure_below_the_views_is_an_error(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, raised in RAISED.items():
        monkeypatch.setattr("registry.storage.Snapshot.get", AsyncMock(side_effect=raised))
        response = await api.get("/persons/1")
        check(error, response.status, response.headers, response.document)


RAW: dict[type[ApiError], bytes] = {
    errors.MalformedRequest: b"GET /persons HTTP/1.1\r\nHost: a..b:x\r\nConnection: close\r\n\r\n",
    errors.RequestTimeout: (
        b"POST /persons HTTP/1.1\r\nHost: h\r\nContent-Type: application/vnd.api+json\r\n"
        b"Content-Length: 9\r\n\r\n{"
    ),
}


async def test_an_error_is_the_response_to_bytes(serve: Serve) -> None:
    for error, sent in RAW.items():
        api = await serve(limits=HURRIED if error is errors.RequestTimeout else LIMITS)
        status, _, body = await api.exchange(sent)
        check(error, status, {}, json.loads(body))


def test_every_error_has_a_code_of_its_own_and_a_request() -> None:
    classes = errors.error_types()
    assert {*REQUESTS, *RAISED, *RAW} == {*classes}
    assert len({error.code for error in classes}) == len(classes)

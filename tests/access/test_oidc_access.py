"""A service that accepts access tokens of a real OpenID Connect provider beside its own."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import quote

import pytest

from registry.settings import Settings
from tests.access.provider import AUDIENCE, Provider
from tests.conftest import Grant, Serve


async def test_a_token_of_the_provider_grants_its_scopes(
    serve: Serve, secured: Settings, provider: Provider, grant: Grant
) -> None:
    settings = replace(secured, oidc_issuer=provider.issuer, oidc_audience=AUDIENCE)
    api = await serve(settings=settings)
    token = await provider.token("ES256")
    sent = {"Authorization": f"Bearer {token}"}
    for _ in range(2):  # verified, then recalled
        assert (await api.get("/persons", **sent)).status == 200
    assert (await api.request("DELETE", "/persons/1", headers=sent)).status == 404
    assert (await api.request("DELETE", "/computers/1", headers=sent)).status == 403
    assert (await api.get("/persons", Authorization=f"Bearer {token}x")).status == 401
    assert (await api.get("/persons", Authorization=f"Bearer {await grant('read')}")).status == 200


async def test_a_subject_is_the_author_with_its_issuer_and_a_token_by_its_name(
    serve: Serve, secured: Settings, provider: Provider, grant: Grant
) -> None:
    settings = replace(secured, oidc_issuer=provider.issuer, oidc_audience=AUDIENCE)
    api = await serve(settings=settings)
    names = {"first_name": "Ada", "last_name": "Lovelace"}
    body = {"data": {"type": "person", "attributes": names}}
    subject = f"{provider.issuer}#ci"
    authors = []
    for token in (await provider.token("ES256"), await grant("write")):
        sent = {"Authorization": f"Bearer {token}"}
        path = "/persons?fields[person]=created_by,updated_by"
        created = await api.request("POST", path, body, sent)
        authors.append(tuple(created.data["attributes"].values()))
    assert authors == [(subject, subject), ("0", "0")]
    found = await api.get(f"/persons?filter[updated_by]={quote(subject)}", **sent)
    assert found.ids == ["1"]


async def test_a_jwt_that_expires_before_the_body_arrives_writes_nothing(
    serve: Serve, secured: Settings, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(secured, oidc_issuer=provider.issuer, oidc_audience=AUDIENCE)
    api = await serve(settings=settings)
    later = time.time() + 3_600

    async def expire_and_send() -> AsyncIterator[bytes]:
        monkeypatch.setattr(time, "time", lambda: later)
        yield b'{"data": {"type": "person", "attributes": {"first_name": "A", "last_name": "B"}}}'

    sent = {
        "Authorization": f"Bearer {await provider.token('ES256')}",
        "Expect": "100-continue",
    }
    refused = await api.request("POST", "/persons", expire_and_send(), sent)
    assert refused.errors == [(401, "")]
    assert refused.document["errors"][0]["detail"] == "The access token has expired."


async def test_without_the_keys_of_the_issuer_its_tokens_are_not_verified(
    serve: Serve, secured: Settings, provider: Provider, grant: Grant
) -> None:
    token = await provider.token("RS256")
    await provider.respond_with(500)
    settings = replace(secured, oidc_issuer=provider.issuer, oidc_audience=AUDIENCE)
    api = await serve(settings=settings)
    refused = await api.get("/persons", Authorization=f"Bearer {token}")
    assert refused.errors == [(503, "")]
    assert refused.document["errors"][0]["code"] == "issuer_unavailable"
    assert int(refused.headers["Retry-After"]) > 0
    assert (await api.get("/persons", Authorization=f"Bearer {await grant('read')}")).status == 200

"""A service that accepts access tokens of a real OpenID Connect provider beside its own."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import quote

import pytest

from registry.settings import Settings
from tests.access.provider import AUDIENCE, Provider
from tests.conftest import Grant, Serve
from tests.support import PERSON


@pytest.fixture
def oidc(secured: Settings, provider: Provider) -> Settings:
    """The settings of a service that accepts the tokens of the provider."""
    return replace(secured, oidc_issuer=provider.issuer, oidc_audience=AUDIENCE)


def bearer(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **more}


async def test_a_token_of_the_provider_grants_its_scopes(
    serve: Serve, oidc: Settings, provider: Provider, grant: Grant
) -> None:
    api = await serve(settings=oidc)
    token = await provider.token("ES256")
    for _ in range(2):  # verified, then recalled
        assert (await api.get("/persons", **bearer(token))).status == 200
    assert (await api.request("DELETE", "/persons/1", headers=bearer(token))).status == 404
    assert (await api.request("DELETE", "/computers/1", headers=bearer(token))).status == 403
    assert (await api.get("/persons", **bearer(f"{token}x"))).status == 401
    assert (await api.get("/persons", **bearer(await grant("read")))).status == 200


async def test_a_subject_is_the_author_with_its_issuer_and_a_token_by_its_name(
    serve: Serve, oidc: Settings, provider: Provider, grant: Grant
) -> None:
    api = await serve(settings=oidc)
    subject = f"{provider.issuer}#ci"
    path = "/persons?fields[person]=created_by,updated_by"
    for token, author in ((await provider.token("ES256"), subject), (await grant("write"), "0")):
        created = await api.post(path, PERSON, **bearer(token))
        assert created.data["attributes"] == {"created_by": author, "updated_by": author}
    found = await api.get(f"/persons?filter[updated_by]={quote(subject)}", **bearer(token))
    assert found.ids == ["1"]


async def test_a_jwt_that_expires_before_the_body_arrives_writes_nothing(
    serve: Serve, oidc: Settings, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = await serve(settings=oidc)
    later = time.time() + 3_600

    async def expire_and_send() -> AsyncIterator[bytes]:
        monkeypatch.setattr(time, "time", lambda: later)
        yield b'{"data": {"type": "person", "attributes": {"first_name": "A", "last_name": "B"}}}'

    sent = bearer(await provider.token("ES256"), Expect="100-continue")
    refused = await api.request("POST", "/persons", expire_and_send(), sent)
    assert refused.errors == [(401, "")]
    assert refused.document["errors"][0]["detail"] == "The access token has expired."


async def test_without_the_keys_of_the_issuer_its_tokens_are_not_verified(
    serve: Serve, oidc: Settings, provider: Provider, grant: Grant, unused_tcp_port: int
) -> None:
    api = await serve(settings=replace(oidc, oidc_issuer=f"http://127.0.0.1:{unused_tcp_port}"))
    refused = await api.get("/persons", **bearer(provider.signed()))
    assert refused.errors == [(503, "")]
    assert refused.code == "issuer_unavailable"
    assert int(refused.headers["Retry-After"]) > 0
    assert (await api.get("/persons", **bearer(await grant("read")))).status == 200

"""A provider for all tests of a process, and verifiers of its tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from registry.access.oidc import OidcVerifier
from registry.access.principal import known_scopes
from registry.resources import RESOURCES
from tests.access.provider import AUDIENCE, Keys, Provider, generated, running_provider


class Clock:
    """A monotonic clock that only the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("registry.access.oidc.monotonic", clock)
    return clock


@pytest.fixture(scope="session")
def first_keys() -> Keys:
    return generated("first", "RS256", "ES256", "EdDSA")


@pytest.fixture(scope="session")
def provider_process(first_keys: Keys) -> Iterator[Provider]:
    with running_provider(first_keys) as provider:
        yield provider


@pytest.fixture
async def provider(provider_process: Provider, first_keys: Keys) -> AsyncIterator[Provider]:
    """The provider, with its first keys and all of its responses."""
    yield provider_process
    await provider_process.respond_with(200)
    if provider_process.keys is not first_keys:
        await provider_process.use(first_keys)


StartVerifier = Callable[..., Awaitable[OidcVerifier]]


@pytest.fixture
async def start_verifier() -> AsyncIterator[StartVerifier]:
    """A function that starts a verifier, which is stopped at the end of the test."""
    async with AsyncExitStack() as stack:

        async def start(issuer: str, scope_claim: str = "scope") -> OidcVerifier:
            verifier = OidcVerifier(issuer, AUDIENCE, scope_claim, known_scopes(RESOURCES))
            await stack.enter_async_context(verifier.refreshed_keys())
            return verifier

        yield start


@pytest.fixture
async def verifier(start_verifier: StartVerifier, provider: Provider) -> OidcVerifier:
    """A verifier of the tokens of the provider."""
    return await start_verifier(provider.issuer)

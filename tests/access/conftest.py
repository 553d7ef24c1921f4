"""A provider for all tests of a process, and verifiers of tokens."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from registry.access.oidc import OidcVerifier
from registry.access.principal import known_scopes
from registry.resources import RESOURCES
from tests.access.provider import AUDIENCE, Provider, generated, running_provider


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
def provider() -> Iterator[Provider]:
    with running_provider(generated("first", "RS256", "ES256", "EdDSA")) as provider:
        yield provider


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

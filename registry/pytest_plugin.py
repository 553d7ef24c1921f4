"""Fixtures for tests of programs that use a registry; see docs/python-client.md.

pytest loads this module wherever the package is installed, so it loads nothing until it is used.
"""

import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from registry.client import Client


@pytest.fixture
def registry_settings() -> dict[str, Any]:
    """Return the settings of registries by name, such as `{"unique": ["computer.serial"]}`."""
    return {}


@pytest.fixture
def registry_url(registry_settings: dict[str, Any]) -> Iterator[str]:
    """Yield the URL of a registry without resources, of this test only."""
    from registry import testing  # noqa: PLC0415 - loads the service

    with testing.url(**registry_settings) as url:
        yield url


async def _client(registry_url: str) -> AsyncIterator["Client"]:
    """Yield a client of the registry of this test."""
    from registry.client import Client  # noqa: PLC0415 - loads aiohttp

    async with Client(registry_url) as client:
        yield client


def pytest_configure(config: pytest.Config) -> None:
    """Add the fixture `registry_client` for the plugin that runs asynchronous tests."""
    fixture: Any = pytest.fixture
    if config.pluginmanager.hasplugin("asyncio"):
        from pytest_asyncio import fixture  # noqa: PLC0415 - loaded already
    plugin = ModuleType("registry_client")
    vars(plugin)["registry_client"] = fixture(_client, name="registry_client")
    config.pluginmanager.register(plugin)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Ignore a warning about aiohttp-swagger3 in each test: a thread makes the next registry."""
    warnings.filterwarnings(
        "ignore", "It is recommended to use web.AppKey", module="aiohttp_swagger3"
    )
    return (yield)


def pytest_unconfigure() -> None:
    """End the MongoDB of the registries."""
    if testing := sys.modules.get("registry.testing"):
        testing.close()

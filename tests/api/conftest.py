"""The service as users' tests start it, and as the command does."""

import pytest

from tests.conftest import Serve
from tests.support import Api


@pytest.fixture
async def api(serve: Serve) -> Api:
    """The service on the server of aiohttp's own tests, as in docs/python-client.md."""
    return await serve(on_runner=False)


@pytest.fixture
async def api_on_runner(serve: Serve) -> Api:
    """The service on its runner, which has limits on connections and counts requests."""
    return await serve()

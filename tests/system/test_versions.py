"""The installed package runs with the lowest and the newest versions that setup.py allows."""

import ast
import json
import os
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from uv import find_uv_bin

from tests.programs import INSTALL_TIMEOUT, run
from tests.support import new, to_one
from tests.system.conftest import Start
from tests.system.service import PAGE_TESTS, ROOT, TIMEOUT, Service, person, run_pytest

IMPORT_ALL = """
import importlib, pkgutil, registry
for module in pkgutil.walk_packages(registry.__path__, "registry."):
    if module.name != "registry.pytest_plugin":  # which pytest loads
        importlib.import_module(module.name)
"""


def uv(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run uv, which finds the versions that pyenv has installed as well."""
    places = [os.environ["PATH"], *Path.home().glob(".pyenv/versions/*/bin")]
    path = {"PATH": os.pathsep.join(map(str, places))}
    return run([find_uv_bin(), *arguments], INSTALL_TIMEOUT, check=True, env=os.environ | path)


def newest_python(versions: str) -> str | None:
    """Return the path of the newest Python on this machine in a range of versions."""
    listed = uv("python", "list", "--only-installed", "--output-format", "json", versions).stdout
    found = [python for python in json.loads(listed) if python["implementation"] == "cpython"]
    newest = max(found, key=lambda python: Version(python["version"]), default=None)
    return newest and newest["path"]


def install(root: Path, python: str, resolution: str) -> Path:
    """Install a copy of the package in a new environment; return the Python of that."""
    source, environment = root / "source", root / "environment"
    shutil.copytree(ROOT / "registry", source / "registry")
    shutil.copy(ROOT / "setup.py", source)
    interpreter = environment / "bin" / "python"
    for arguments in (
        ("venv", "--no-python-downloads", "--python", python, environment),
        (
            "pip",
            "install",
            "--python",
            interpreter,
            "--resolution",
            resolution,
            f"{source}[embedded]",
        ),
    ):
        uv(*arguments)
    return interpreter


def exercise(service: Service) -> None:
    """Send requests that need most of the packages."""
    persons = "/persons?include=computers&filter[first_name]=Grace"
    service.request("/persons", person("Grace"))
    service.request("/computers", {"data": new("computer", {"owner": to_one("1")}, serial="SN-1")})
    (included,) = service.request(persons)["included"]
    assert included["attributes"] == {"serial": "SN-1"}

    wrong = person("Ada")
    wrong["data"]["attributes"]["email"] = "ada@localhost"
    with pytest.raises(HTTPError, match="422"):
        service.request("/persons", wrong)
    assert json.loads(service.log_line())
    assert service.request("/api/swagger/openapi.json")["openapi"] == "3.0.0"
    with urlopen(f"{service.url}/api/swagger/", timeout=TIMEOUT) as page:  # noqa: S310 - http
        assert b"swagger-ui" in page.read()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("versions", "resolution"), [(">=3.11,<3.12", "lowest-direct"), (">=3.11", "highest")]
)
def test_the_service_runs_with_the_versions_that_setup_py_allows(
    versions: str, resolution: str, start: Start, tmp_path: Path
) -> None:
    if (python := newest_python(versions)) is None:
        pytest.skip(f"there is no Python {versions}")
    command = (install(tmp_path, python, resolution), "-P", "-m", "registry")
    run([command[0], "-P", "-c", IMPORT_ALL], check=True)
    arguments = ["--workers", "2"] if sys.platform == "linux" else []
    arguments += ["--metrics-port", "0", "--log-format", "json"]
    service = start(*arguments, command=command)
    exercise(service)
    assert service.stop() == (0, "")
    uv("pip", "install", "--python", command[0], "pytest")
    (directory := tmp_path / "tests").mkdir()
    run_pytest(directory, PAGE_TESTS[:1], python=str(command[0]))


def test_setup_py_allows_each_pinned_version() -> None:
    direct = (ROOT / "requirements.in").read_text().splitlines()
    pins = [Requirement(text) for line in direct if (text := line.partition("#")[0].strip())]
    call = ast.parse((ROOT / "setup.py").read_text()).body[-1]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    arguments = {keyword.arg: keyword.value for keyword in call.value.keywords}
    extras = ast.literal_eval(arguments["extras_require"])
    lists = [ast.literal_eval(arguments["install_requires"]), *extras.values()]
    ranges = {(allowed := Requirement(text)).name: allowed for text in chain(*lists)}
    assert ranges.keys() == {pin.name for pin in pins}
    for pin in pins:
        (version,) = (specifier.version for specifier in pin.specifier)
        assert ranges[pin.name].specifier.contains(version), pin

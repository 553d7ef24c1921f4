"""The installation: a checkout of the repository, or a package that pip has installed."""

import shutil
import sys
from pathlib import Path

from platformdirs import user_data_path

_ROOT = Path(__file__).parents[1]

IS_CHECKOUT = (_ROOT / "setup.py").is_file()
"""Whether this package is in a checkout, where scripts run the commands."""

DATA_DIR = Path("data") if IS_CHECKOUT else user_data_path("registry", appauthor=False)
"""The default data directory: `data` in a checkout; otherwise that of the user, on Linux in
`XDG_DATA_HOME` or `~/.local/share`."""

SWAGGER_UI = Path(__file__).with_name("openapi") / "swagger-ui"
"""The directory of the required version, if scripts/swagger-ui has installed it."""


def is_default(data_dir: Path) -> bool:
    """Return whether commands use this data directory if they are not told another one."""
    return data_dir.absolute() == _ROOT / DATA_DIR


def program() -> str:
    """Return how the user has started this program: `registry` or `python -m registry`."""
    name = Path(sys.argv[0]).name
    return "python -m registry" if name == "__main__.py" else name


def command(name: str) -> list[str]:
    """Return the words by which a command, such as `token`, can be run in this installation."""
    if IS_CHECKOUT:
        return ["./scripts/registry", name]
    program = ["registry"] if shutil.which("registry") else [sys.executable, "-m", "registry"]
    return [*program, name]

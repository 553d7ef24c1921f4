"""The requirement files: what they pin by hashes is what they are made from."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.programs import pins

ROOT = Path(__file__).parents[1]

FILES = sorted(
    file.relative_to(ROOT).with_suffix("")
    for pattern in ("*.in", "scripts/**/*.in", "tests/**/*.in")
    for file in ROOT.glob(pattern)
)


def direct_pins(file: Path) -> dict[str, str]:
    """Return the versions by the names of the packages."""
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    requirements = map(Requirement, filter(None, lines))
    return {
        canonicalize_name(requirement.name): str(requirement.specifier)[2:]
        for requirement in requirements
    }


@pytest.mark.parametrize("file", FILES, ids=str)
def test_each_requirement_is_pinned_by_hashes(file: Path) -> None:
    direct = direct_pins(ROOT / f"{file}.in")
    pinned = pins((ROOT / f"{file}.txt").read_text())
    assert direct
    assert direct.items() <= pinned.items()


def test_the_files_that_are_installed_together_agree() -> None:
    service = pins((ROOT / "requirements.txt").read_text())
    for file in FILES:
        for name, version in pins((ROOT / f"{file}.txt").read_text()).items():
            assert service.get(name, version) == version

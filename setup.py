"""The package: `pip install .` brings what requirements.txt pins."""

from pathlib import Path

from setuptools import find_packages, setup

from registry import __version__

HERE = Path(__file__).parent


def pinned() -> list[str]:
    """Return the requirements without comments."""
    lines = (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [pin for line in lines if (pin := line.partition("#")[0].strip())]


setup(
    name="registry",
    version=__version__,
    description="A JSON:API 1.0 service that keeps persons, computers and who owns what",
    packages=find_packages(include=["registry", "registry.*"]),
    package_data={"registry": ["py.typed"]},
    python_requires=">=3.11",
    install_requires=pinned(),
)

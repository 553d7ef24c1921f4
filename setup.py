"""The package; its dependencies are the pinned versions in requirements.txt."""

from pathlib import Path

from setuptools import find_packages, setup

from registry import __version__

HERE = Path(__file__).parent


def requirements() -> list[str]:
    """Return the pinned requirements, without comments."""
    lines = (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [pin for line in lines if (pin := line.partition("#")[0].strip())]


setup(
    name="registry",
    version=__version__,
    description="A JSON:API 1.0 service for persons and the computers they own",
    packages=find_packages(include=["registry", "registry.*"]),
    package_data={"registry": ["py.typed"]},
    entry_points={"console_scripts": ["registry=registry.__main__:main"]},
    python_requires=">=3.11",
    install_requires=requirements(),
)

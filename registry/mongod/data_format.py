"""The format of the data of mongod, which MongoDB calls the feature compatibility version.

A mongod opens data in its own format and in that of the major version before, and keeps it. Once
the format is raised to its own, earlier versions can no longer open the data.
"""

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from motor.motor_asyncio import AsyncIOMotorClient

from registry.mongod.server_log import Log
from registry.program import program

MongoClient: TypeAlias = AsyncIOMotorClient[dict[str, Any]]

_FORMAT = re.compile(r"version(?:: \"| value ')(\d+)\.(\d+)")
"""The format in the errors of mongod: that of the stored document, or, from 8.0, of its version."""

_LATER_FILES = re.compile("unsupported WiredTiger|Version incompatibility detected")
"""How WiredTiger, which stores the files, says that a later version has written them."""

_WRONG_VERSION = 20573
_BUILD_INFO = 23403
"""Ids of log entries."""

_CONFIRMED_FROM = 7
"""The first major version that requires a confirmation to change the format; 6.0 refuses one."""


@dataclass(frozen=True, slots=True)
class DataFormat:
    """mongod: the version of the program, such as 7.0.28. data: that of the format, such as 6.0."""

    mongod: str
    data: str

    @property
    def own(self) -> str:
        """The format that this mongod writes."""
        return ".".join(self.mongod.split(".")[:2])


async def read_format(client: MongoClient) -> DataFormat:
    """Return the format of the data of a mongod. Raises PyMongoError."""
    build = await client.admin.command("buildInfo")
    name = "featureCompatibilityVersion"
    parameters = await client.admin.command({"getParameter": 1, name: 1})
    return DataFormat(build["version"], parameters[name]["version"])


async def raise_format(client: MongoClient) -> DataFormat:
    """Raise the format of the data to that of their mongod; return the format before.

    It may be repeated, also after an interruption. Raises PyMongoError.
    """
    before = await read_format(client)
    command: dict[str, Any] = {"setFeatureCompatibilityVersion": before.own}
    if int(before.mongod.partition(".")[0]) >= _CONFIRMED_FROM:
        command["confirm"] = True
    await client.admin.command(command)
    return before


def version_conflict(log: Log) -> str | None:
    """Return why mongod cannot open data of another version; None if that is not the reason."""
    mongod = "0.0"
    for entry in log.entries():
        attributes = entry.get("attr", {})
        if entry.get("id") == _BUILD_INFO:
            mongod = attributes["buildInfo"]["version"]
        elif entry.get("id") == _WRONG_VERSION and (found := _FORMAT.search(attributes["error"])):
            return _refusal(mongod, int(found[1]), int(found[2]))
        elif _LATER_FILES.search(str(attributes.get("message"))):
            return f"a MongoDB later than {mongod} wrote the data: choose that one with --mongod"
    return None


def _refusal(mongod: str, major: int, minor: int) -> str:
    refused = f"mongod {mongod} cannot open data in the format of MongoDB {major}.{minor}"
    if steps := _steps(mongod, major):
        return (
            f"{refused}: first choose mongod {', then '.join(steps)} with --mongod, "
            f"and raise the format with `{program()} upgrade` each time"
        )
    return f"{refused}: choose mongod {major}.{minor} with --mongod"


def _steps(mongod: str, major: int) -> list[str]:
    """Return the versions through which data in the format of a major version reach a mongod."""
    latest, minor = map(int, mongod.split(".")[:2])
    return [f"{step}.0" for step in range(major + 1, latest + (minor > 0))]

"""The format of the data of mongod, which MongoDB calls the feature compatibility version.

A mongod opens data in its own format and in that of the major version before, and keeps it. Once
the format is raised to its own, earlier versions can no longer open the data.
"""

from typing import Any

from registry.storage import Database

_CONFIRMED_FROM = 7
"""The first major version that requires a confirmation to change the format; 6.0 refuses one."""


async def raise_format(database: Database) -> tuple[str, str]:
    """Raise the format of the data to that of their mongod; return both as they were.

    The formats are such as 7.0: that of mongod, that of the data. It may be repeated, also after
    an interruption. Raises PyMongoError.
    """
    admin = database.client.admin
    own = (await admin.command("buildInfo"))["version"].rpartition(".")[0]
    name = "featureCompatibilityVersion"
    data = (await admin.command({"getParameter": 1, name: 1}))[name]["version"]
    command: dict[str, Any] = {"setFeatureCompatibilityVersion": own}
    if int(own.partition(".")[0]) >= _CONFIRMED_FROM:
        command["confirm"] = True
    await admin.command(command)
    return own, data

"""The command `upgrade`, as an operator runs it."""

import asyncio
import sys
from pathlib import Path

import pytest

from registry.mongod import embedded
from registry.settings import Settings
from tests.programs import earlier_mongod
from tests.system.conftest import Start
from tests.system.service import COMMAND, environment, error_message, run_command


async def create_data(data_dir: Path, mongod: Path) -> None:
    async with embedded.mongod(Settings(data_dir=data_dir, mongod=mongod)):
        pass


def upgrade(data_dir: Path) -> str:
    done = run_command([*COMMAND, "upgrade", "--data-dir", data_dir], environment())
    done.check_returncode()
    return done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the mongod 5.0 is a program for Linux")
def test_data_are_upgraded_while_the_service_runs(start: Start, tmp_path: Path) -> None:
    asyncio.run(create_data(tmp_path, earlier_mongod()))
    service = start(data_dir=tmp_path)
    assert upgrade(tmp_path) == f"Raised the data format of {tmp_path} from 5.0 to 6.0.\n"
    assert service.stop() == (0, "")
    already = f"{tmp_path} has the data format of MongoDB 6.0 already.\n"
    assert upgrade(tmp_path) == already


def test_the_members_of_a_cluster_are_not_upgraded() -> None:
    message = error_message([*COMMAND, "upgrade", "--mongodb-uri", "mongodb://db1"], environment())
    assert message.startswith("registry: upgrade is for the embedded MongoDB: unset MONGODB_URI")

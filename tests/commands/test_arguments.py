"""The arguments of commands: where the settings of the database and the token come from."""

from collections.abc import Callable
from pathlib import Path

import pytest

from registry.commands import arguments
from registry.commands.arguments import database_parser, declared_graph, open_client
from registry.settings import Settings

Read = Callable[..., Settings]

FLEET = Path(__file__).parents[2] / "docs" / "fleet.toml"


@pytest.fixture
def service_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the settings of the service."""
    for name in ("MONGODB_URI", "REGISTRY_DATA_DIR", "REGISTRY_DATABASE", "REGISTRY_TYPES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(arguments, "SERVICE_FILE", tmp_path / "registry.env")
    return tmp_path / "registry.env"


@pytest.fixture(autouse=True)
def _read_again() -> None:
    arguments._settings_of_service.cache_clear()


def read(*words: str, **variables: str) -> Settings:
    parser = database_parser("check", "Check.")
    return parser.settings(parser.parse_args(words), variables)


def test_the_file_of_the_service_is_read_after_flags_and_variables(service_file: Path) -> None:
    service_file.write_text(
        "# of this machine\nREGISTRY_DATA_DIR=/srv/registry\n; \nREGISTRY_DATABASE='fleet'\n"
    )
    assert (read().data_dir, read().database) == (Path("/srv/registry"), "fleet")
    assert read(REGISTRY_DATABASE="other").database == "other"
    assert read("--database", "flag", REGISTRY_DATABASE="other").database == "flag"
    assert read(REGISTRY_DATABASE="").database == "fleet"


def test_who_names_a_database_gets_no_other(service_file: Path) -> None:
    service_file.write_text("MONGODB_URI=mongodb://production\nREGISTRY_DATABASE=fleet\n")
    assert read().mongodb_uri == "mongodb://production"
    for settings in (read("--data-dir", "copy"), read(REGISTRY_DATA_DIR="copy")):
        assert (settings.mongodb_uri, settings.data_dir) == (None, Path("copy"))
    assert read("--mongodb-uri", "mongodb://other").mongodb_uri == "mongodb://other"


def test_types_in_the_file_of_the_service_are_known(service_file: Path) -> None:
    service_file.write_text(f"REGISTRY_TYPES={FLEET}\n")
    assert len(declared_graph([])) > len(Settings().graph)


def test_a_file_that_cannot_be_read_is_named(
    service_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service_file.mkdir()
    assert read() == Settings()
    assert capsys.readouterr().err.startswith(f"registry: {service_file} is not used: ")


async def test_the_token_may_be_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REGISTRY_TOKEN", raising=False)
    (file := tmp_path / "token").write_text("reg_4\n")
    monkeypatch.setenv("REGISTRY_TOKEN_FILE", str(file))
    open_client("http://127.0.0.1")

    def refused() -> str:
        with pytest.raises(SystemExit, match="2"):
            open_client("http://127.0.0.1")
        return capsys.readouterr().err

    for name, reason in ((tmp_path / "missing", "cannot read"), ("/dev/zero", "more than")):
        monkeypatch.setenv("REGISTRY_TOKEN_FILE", str(name))
        line = refused()
        assert line.startswith("registry: REGISTRY_TOKEN_FILE: ")
        assert reason in line
        assert line.count("\n") == 1
    monkeypatch.setenv("REGISTRY_TOKEN_FILE", str(file))
    monkeypatch.setenv("REGISTRY_TOKEN", "reg_5")
    assert "REGISTRY_TOKEN and REGISTRY_TOKEN_FILE: set one of them" in refused()

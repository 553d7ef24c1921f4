"""Settings: flags, environment variables, and the errors for invalid values."""

import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest

from registry.capacity import Capacity
from registry.resources.types_file import read_types
from registry.settings import CORES, Settings, parse_settings

ErrorLine = Callable[..., str]

SETTINGS: dict[str, tuple[str | None, str]] = {
    "--mongodb-uri": (None, "mongodb://db.example.com"),
    "--database": ("registry", "people"),
    "--data-dir": ("data", "/srv/my data"),
    "--mongod": (None, "/opt/mongod"),
    "--host": ("127.0.0.1", "::1"),
    "--port": ("8080", "0"),
    "--workers": ("1", "2"),
    "--public-url": (None, "https://example.com:8443/"),
    "--auth": ("auto", "on"),
    "--tls-certificate": (None, "/etc/registry/certificate.pem"),
    "--tls-key": (None, "/etc/registry/key.pem"),
    "--allowed-host": (None, "Fleet.example"),
    "--cors-origin": (None, "HTTPS://App.example:443"),
    "--trusted-proxy": (None, "10.0.0.1"),
    "--types": (None, str(Path(__file__).parents[1] / "docs/fleet.toml")),
    "--unique": (None, "computer.serial"),
    "--revisions": (None, "30"),
    "--oidc-issuer": (None, "https://id.example.com/realms/fleet/"),
    "--oidc-audience": (None, "urn:fleet registry"),
    "--oidc-scope-claim": ("scope", "scp"),
    "--access-log": ("off", "on"),
    "--log-format": ("text", "json"),
    "--metrics-port": (None, "9100"),
    "--compression": ("on", "off"),
    "--page-size": ("50", "7"),
    "--query-seconds": ("5.0", "1.5"),
    "--capacity": (str(1_000 * CORES), "300"),
}
"""The flags, each with its default and another value."""

CONTRADICTIONS = [
    (["--oidc-issuer=https://id.example.com"], "--oidc-issuer and --oidc-audience require"),
    (["--oidc-audience=registry"], "--oidc-issuer and --oidc-audience require"),
    (["--tls-certificate=file.pem"], "--tls-certificate and --tls-key: set both or neither"),
    (["--tls-key=file.pem"], "--tls-certificate and --tls-key: set both or neither"),
    *(
        ([f"--unique={name}"], f"--unique: {name!r} is not an attribute that can be unique")
        for name in ("serial", "computer.serial.x", "Computer.serial")
    ),
]

PUBLISHED = [
    ["--trusted-proxy=127.0.0.1"],
    ["--public-url=https://registry.example.com"],
    ["--oidc-issuer=https://id.example.com", "--oidc-audience=registry"],
]
"""Settings that say that others use a service on a loopback address."""

INVALID = {
    "--port": ["99999", "-1", "8_0", " 80", "\uff18\uff10", ""],
    "--metrics-port": ["99999"],
    "--access-log": ["yes", ""],
    "--log-format": ["xml"],
    "--workers": ["0", "65", "two", "\uff12"],
    "--types": ["", "missing.toml", "."],
    "--unique": [""],
    "--revisions": ["", "0", "-1", "1.5", "a week", "24856"],
    "--database": ["a b", "a.b", "a/b", "$a", "x" * 64, "ä" * 32, "admin", "Local"],
    "--public-url": [
        *["registry.example.com", "ftp://registry.example.com", "https://", "https://:80"],
        *["https://registry.example.com/?a=b", "https://registry.example.com/#top"],
        *["https://user:word@registry.example.com", "https://registry.example.com/fleet"],
        *[*(f"https://registry.example.com:{port}" for port in ("99999", "0", "http"))],
        *["https://[::1", "https://registry example.com"],
    ],
    "--allowed-host": [
        *["", "*", "a.example:8080", "https://a.example", "a..example", "größe.example"],
        *["a.example b.example"],
    ],
    "--cors-origin": [
        *["", "null", "app.example.com", "https://app.example.com/", "https://*.example.com"],
        *["https://user@app.example.com", "https://app.example.com:99999"],
        *["https://app.example.com https://b.example.com"],
    ],
    "--trusted-proxy": ["", "proxy.example", "10.0.0.0/33", "10.0.0.1/8", "::1%lo/64"],
    "--oidc-issuer": [
        *["https://id.example.com/?tenant=a", "https://user:word@id.example.com", "https://"],
        *["http://id.example.com", "http://localhost.example.com", "http://192.0.2.1"],
    ],
    "--oidc-audience": [""],
    "--oidc-scope-claim": [""],
    "--data-dir": [""],
    "--host": [""],
    "--mongodb-uri": [""],
    "--compression": ["gzip"],
    "--auth": ["yes", "ON", ""],
    "--page-size": ["0", "1001"],
    "--query-seconds": ["0", "1e3"],
    "--capacity": ["0", "many"],
}


def variable(flag: str) -> str:
    """Return the environment variable for a flag."""
    name = flag.removeprefix("--").replace("-", "_").upper()
    return name if name == "MONGODB_URI" else f"REGISTRY_{name}"


@pytest.fixture
def error_line(capsys: pytest.CaptureFixture[str]) -> ErrorLine:
    """A function that returns the single line that is printed for invalid settings."""

    def error_line(*arguments: str, **environment: str) -> str:
        with pytest.raises(SystemExit) as caught:
            parse_settings(arguments, environment)
        assert caught.value.code == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.count("\n") == 1
        return output.err

    return error_line


def test_the_uri_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "uri"
    file.write_text("mongodb://u:p@db/\n")
    environment = {"MONGODB_URI_FILE": str(file), "MONGODB_URI": ""}
    assert parse_settings([], environment).mongodb_uri == "mongodb://u:p@db/"
    flagged = parse_settings(["--mongodb-uri", "mongodb://other/"], environment)
    assert flagged.mongodb_uri == "mongodb://other/"


def test_a_file_without_a_uri_is_refused_by_the_name_of_its_variable(
    tmp_path: Path, error_line: ErrorLine
) -> None:
    empty, uri = tmp_path / "empty", "mongodb://u:p@db/"
    empty.write_text(" \n")
    for path, reason in (
        (tmp_path / "missing", "No such file"),
        (tmp_path, "Is a directory"),
        (empty, "is empty"),
        (Path("/dev/zero"), "has more than 8,192 bytes"),
    ):
        line = error_line(MONGODB_URI_FILE=str(path))
        assert line.startswith("registry: MONGODB_URI_FILE: ")
        assert reason in line
    both = error_line(MONGODB_URI_FILE=str(empty), MONGODB_URI=uri)
    assert "MONGODB_URI and MONGODB_URI_FILE: set one of them" in both
    assert "u:p" not in both


def test_tokens_are_required_by_default_from_other_hosts() -> None:
    loopback = ("127.0.0.1", "127.8.9.1", "::1", "localhost")
    addresses = ("::", "192.0.2.1", "::ffff:192.0.2.1", "0.0.0.0")  # noqa: S104 - no socket is bound
    for host in (*loopback, *addresses, "registry.example.com", "localhost.example.com"):
        assert Settings(host=host).requires_tokens is (host not in loopback)
        assert Settings(host=host, auth="on").requires_tokens
        assert not Settings(host=host, auth="off").requires_tokens


def test_flags_and_environment_variables_are_equivalent() -> None:
    flags = {flag: value for flag, (_, value) in SETTINGS.items()}
    parsed = parse_settings([], {variable(flag): value for flag, value in flags.items()})
    assert parse_settings([word for pair in flags.items() for word in pair], {}) == parsed
    converted = {
        "data_dir": Path("/srv/my data"),
        "port": 0,
        "public_url": "https://example.com:8443",
        "allowed_host": ("fleet.example",),
        "cors_origin": ("https://app.example",),
        "trusted_proxy": (ip_network("10.0.0.1"),),
        "types": read_types(flags["--types"]),
        "unique": ("computer.serial",),
        "query_seconds": 1.5,
    }
    for flag, value in flags.items():
        name = flag.removeprefix("--").replace("-", "_")
        assert str(getattr(parsed, name)) == str(converted.get(name, value)), flag


def test_a_flag_overrides_its_variable_even_an_invalid_one() -> None:
    assert parse_settings(["--port=81"], {"REGISTRY_PORT": "82"}).port == 81
    assert parse_settings(["--port=81"], {"REGISTRY_PORT": "none"}).port == 81


def test_a_repeated_flag_equals_a_variable_with_commas() -> None:
    flags = ["--trusted-proxy=10.0.0.0/8", "--allowed-host=a.example", "--trusted-proxy", "::1"]
    expected = Settings(
        auth="off",
        allowed_host=("a.example",),
        trusted_proxy=(ip_network("10.0.0.0/8"), ip_network("::1")),
    )
    variables = {
        "REGISTRY_ALLOWED_HOST": "a.example",
        "REGISTRY_TRUSTED_PROXY": "10.0.0.0/8, ::1",
        "REGISTRY_AUTH": "off",
    }
    assert parse_settings([*flags, "--auth=off"], {}) == expected
    assert parse_settings([], variables) == expected
    assert parse_settings(["--allowed-host=b"], variables).allowed_host == ("b",)


def test_each_value_of_a_repeated_flag_is_validated(error_line: ErrorLine) -> None:
    assert "'b:1'" in error_line("--allowed-host=a", "--allowed-host=b:1")
    assert "REGISTRY_ALLOWED_HOST: " in error_line(REGISTRY_ALLOWED_HOST="a,")
    assert parse_settings(["--port=80", "--port=81"], {}).port == 81


def test_an_empty_variable_is_ignored() -> None:
    assert parse_settings([], dict.fromkeys(map(variable, SETTINGS), "")) == Settings()


@pytest.mark.parametrize("flag", INVALID)
def test_an_invalid_value_is_one_line(flag: str, error_line: ErrorLine) -> None:
    for value in INVALID[flag]:
        line = error_line(f"{flag}={value}")
        assert line.startswith(f"registry: {flag}: "), value
        if value:
            line = error_line(**{variable(flag): value})
            assert line.startswith(f"registry: {variable(flag)}: "), value


def test_several_workers_need_linux(error_line: ErrorLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert parse_settings(["--workers=1"], {}).workers == 1
    assert "only Linux" in error_line("--workers=2")


@pytest.mark.parametrize(("arguments", "message"), CONTRADICTIONS)
def test_settings_that_contradict_each_other_are_reported(
    arguments: list[str], message: str, error_line: ErrorLine
) -> None:
    assert error_line(*arguments).startswith(f"registry: {message}")


@pytest.mark.parametrize("published", PUBLISHED)
def test_an_api_is_open_through_a_proxy_only_by_choice(
    published: list[str], error_line: ErrorLine
) -> None:
    assert error_line(*published).startswith(
        f"registry: {published[0].partition('=')[0]}: the API would be open through your proxy. "
        "Require tokens with --auth on, or allow everybody with --auth off"
    )
    for chosen in ("--auth=on", "--auth=off", "--host=192.0.2.1"):
        parse_settings([*published, chosen], {})


def test_a_service_for_this_host_alone_is_open_without_being_asked() -> None:
    assert not parse_settings(["--public-url=http://localhost:8080"], {}).requires_tokens


@pytest.mark.parametrize(
    "issuer", ["http://127.0.0.1:8085", "http://localhost/realm", "http://[::1]:80"]
)
def test_an_issuer_on_a_loopback_address_needs_no_tls(issuer: str) -> None:
    arguments = [f"--oidc-issuer={issuer}", "--oidc-audience=registry", "--auth=on"]
    assert parse_settings(arguments, {}).oidc_issuer == issuer


def test_a_response_begins_within_10_seconds_unless_queries_may_take_longer() -> None:
    assert Capacity.of(Settings()).response_seconds < 10
    capacity = Capacity.of(parse_settings(["--query-seconds=60"], {}))
    assert capacity.response_seconds > 60 + capacity.queue_seconds


@pytest.mark.parametrize("argument", ["--prot=80", "--data=x", "serve", "--port"])
def test_an_unknown_argument_is_one_line(argument: str, error_line: ErrorLine) -> None:
    assert argument in error_line(argument)


@pytest.mark.parametrize(
    "arguments", [["URI"], ["--mongodb-url", "URI"], ["--public-url", "URI"], ["--cors-origin=URI"]]
)
def test_a_refused_argument_shows_no_credentials(
    arguments: list[str], error_line: ErrorLine
) -> None:
    uri = "mongodb://me:se/c@r et\n@db"
    line = error_line(*(each.replace("URI", uri) for each in arguments))
    assert "mongodb://...@db" in line
    assert not {"me", "se", "c", "r", "et"} & set(re.split(r"\W+", line.partition(";")[0]))


def test_a_refused_argument_cannot_control_the_terminal(error_line: ErrorLine) -> None:
    assert r"\x1b[2J" in error_line("--\x1b[2J")


def test_help_lists_every_setting_with_its_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        parse_settings(["--help"], {})
    assert caught.value.code == 0
    listed = capsys.readouterr().out
    lines = " ".join(listed.split())
    for flag, (default, _) in SETTINGS.items():
        shown = re.search(rf"{flag} \S+ [A-Z][^[]*?\.(?: \[default: (\S+)\])?(?= |$)", lines)
        assert shown, flag
        assert shown[1] == default


def test_the_page_of_settings_has_their_defaults() -> None:
    page = (Path(__file__).parents[1] / "docs/settings.md").read_text()
    listed = re.findall(r"^\| `(--[\w-]+)` \| (\S+|\d.*? a core) \|", page, re.MULTILINE)
    shown = {None: "none", str(1_000 * CORES): "1,000 a core"}
    assert listed == [
        (flag, shown.get(default, f"`{default}`")) for flag, (default, _) in SETTINGS.items()
    ]
    assert len(listed) == len(Settings.__dataclass_fields__) <= 27

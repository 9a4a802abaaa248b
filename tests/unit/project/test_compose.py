"""compose.yaml and the Dockerfile, as a real compose parser reads them.

`make image` builds the image and runs the services. This needs no container engine.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml

from outbox.domain.config.settings import Settings
from webapp.config import from_environment

ROOT = Path(__file__).resolve().parents[3]
SECRETS = {
    name: name[0].lower()
    for name in (
        "SECRET_KEY",
        "POSTGRES_PASSWORD",
        "DATABASE_PASSWORD",
        "FLOWER_PASSWORD",
        "DASHBOARD_PASSWORD",
    )
}
ROLE = ROOT / "docs" / "deploy" / "postgres" / "shop-role.sh"
OURS = ("migrate", "web", "worker", "beat", "flower")
RUNNING = ("web", "worker", "beat", "flower")


def docker_compose(*words: str, secrets: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Debian's docker-compose, without the caller's own secrets and .env."""
    program = shutil.which("docker-compose")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("docker-compose is missing")
        pytest.skip("docker-compose is missing")
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **secrets}
    with tempfile.NamedTemporaryFile() as empty:
        files = ["--file", str(ROOT / "compose.yaml"), "--env-file", empty.name]
        command = [program, *files, *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def parsed(**variables: str) -> dict[str, Any]:
    """Return the services as compose reads them with all secrets and these variables."""
    answer = docker_compose("config", secrets=SECRETS | variables)
    assert answer.returncode == 0, answer.stderr
    return dict(yaml.safe_load(answer.stdout)["services"])


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return parsed()


@pytest.fixture(scope="module")
def changed() -> dict[str, Any]:
    """The services where variables change them: each start of compose takes most of a second."""
    return parsed(WORKERS="7", OUTBOX_INSTANCE="production")


def published(service: dict[str, Any]) -> list[str]:
    """Return the host addresses of a service's ports, in the old notation and in the new one."""
    return [
        port.get("host_ip", "0.0.0.0") if isinstance(port, dict) else port.split(":")[0]
        for port in service.get("ports", [])
    ]


@pytest.mark.long
@pytest.mark.parametrize("missing", SECRETS)
def test_a_missing_secret_stops_the_start_and_is_named(missing: str) -> None:
    answer = docker_compose(
        "config", secrets={name: value for name, value in SECRETS.items() if name != missing}
    )
    assert answer.returncode != 0
    assert missing in answer.stderr + answer.stdout


def test_no_secret_stands_in_the_file() -> None:
    text = (ROOT / "compose.yaml").read_text()
    assert all(f"${{{name}:?" in text for name in SECRETS)
    assert not re.search(r"(PASSWORD|SECRET_KEY): +[^$\s]", text)


@pytest.mark.long
def test_every_service_that_stays_has_a_health_check(services: dict[str, Any]) -> None:
    assert {name for name, service in services.items() if "healthcheck" not in service} == {
        "migrate"
    }


@pytest.mark.parametrize("name", RUNNING)
def test_it_starts_after_the_migration_on_a_healthy_database(
    services: dict[str, Any], name: str
) -> None:
    needs = services[name]["depends_on"]
    assert needs["migrate"]["condition"] == "service_completed_successfully"
    assert needs["postgres"]["condition"] == "service_healthy"


@pytest.mark.parametrize("name", ["worker", "beat", "flower"])
def test_it_starts_on_a_healthy_redis(services: dict[str, Any], name: str) -> None:
    assert services[name]["depends_on"]["redis"]["condition"] == "service_healthy"


def test_the_web_needs_no_redis_to_start(services: dict[str, Any]) -> None:
    assert "redis" not in services["web"]["depends_on"]


def test_redis_never_evicts(services: dict[str, Any]) -> None:
    assert "--maxmemory-policy noeviction" in " ".join(services["redis"]["command"])


def test_the_database_and_the_broker_publish_no_port(services: dict[str, Any]) -> None:
    assert not published(services["postgres"])
    assert not published(services["redis"])


def test_every_published_port_can_be_changed() -> None:
    ports = re.findall(r"^ +ports: (.+)$", (ROOT / "compose.yaml").read_text(), re.MULTILINE)
    assert len(ports) == 3
    assert all(re.fullmatch(r'\["127\.0\.0\.1:\$\{\w+_PORT:-\d+\}:\d+"\]', port) for port in ports)


def test_every_published_port_is_on_the_loopback_interface(services: dict[str, Any]) -> None:
    hosts = {name: published(service) for name, service in services.items()}
    assert {name for name, published in hosts.items() if published} == {"web", "mailpit", "flower"}
    assert all(host == "127.0.0.1" for published in hosts.values() for host in published)


@pytest.mark.long
def test_up_starts_four_workers_each_time_and_a_variable_changes_that(
    services: dict[str, Any], changed: dict[str, Any]
) -> None:
    worker = services["worker"]
    assert "container_name" not in worker
    assert "ports" not in worker
    assert worker["deploy"]["replicas"] == 4
    assert changed["worker"]["deploy"]["replicas"] == 7


def test_a_stopped_worker_may_wait_for_the_reply_to_a_message(services: dict[str, Any]) -> None:
    settings = Settings()
    assert services["worker"]["stop_grace_period"] in ("11m", "11m0s")
    assert settings.dot_timeout + settings.window_seconds < 11 * 60


def test_only_one_service_builds_the_image(services: dict[str, Any]) -> None:
    assert [name for name, service in services.items() if "build" in service] == ["migrate"]
    assert {services[name]["image"] for name in OURS} == {"flask-mail-outbox-demo"}
    assert {services[name]["pull_policy"] for name in OURS} == {"never"}


def test_each_of_our_services_gets_the_name_of_the_installation(
    changed: dict[str, Any],
) -> None:
    assert {changed[name]["environment"].get("OUTBOX_INSTANCE") for name in OURS} == {"production"}


def test_without_a_name_the_shop_has_none(services: dict[str, Any]) -> None:
    given = {name: str(value) for name, value in services["web"]["environment"].items()}
    assert given["OUTBOX_INSTANCE"] == ""
    assert "OUTBOX_INSTANCE" not in from_environment(given)


@pytest.mark.parametrize("name", ["worker", "beat"])
def test_a_health_check_starts_no_celery(services: dict[str, Any], name: str) -> None:
    check = services[name]["healthcheck"]["test"]
    assert services[name]["environment"]["HEARTBEAT_FILE"] in check[1]
    assert "celery" not in check[1]


def test_every_log_is_bounded(services: dict[str, Any]) -> None:
    assert all("max-size" in service["logging"]["options"] for service in services.values())


def test_the_shop_is_no_superuser_of_its_database(services: dict[str, Any]) -> None:
    assert "POSTGRES_USER" not in services["postgres"]["environment"]
    assert services["web"]["environment"]["DATABASE_URL"] == "postgresql://shop@postgres/shop"
    assert "CREATE ROLE shop LOGIN PASSWORD" in ROLE.read_text()


def test_exactly_one_service_runs_beat(services: dict[str, Any]) -> None:
    beats = [name for name, service in services.items() if "beat" in service.get("command", [])]
    assert beats == ["beat"]
    assert "deploy" not in services["beat"]
    assert "/tmp" in services["beat"]["tmpfs"]  # where its schedule file lies


def test_flower_asks_for_a_password_and_starts_no_task(services: dict[str, Any]) -> None:
    flower = services["flower"]
    assert flower["environment"]["FLOWER_BASIC_AUTH"] == "flower:f"
    assert "--read_only" in flower["command"]


@pytest.mark.parametrize("name", OURS)
def test_our_containers_cannot_change_themselves(services: dict[str, Any], name: str) -> None:
    assert services[name]["read_only"] is True
    assert services[name]["cap_drop"] == ["ALL"]


def test_every_image_is_pinned_to_a_version(services: dict[str, Any]) -> None:
    foreign = [service["image"] for name, service in services.items() if name not in OURS]
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(bases) == 2
    assert all(re.search(r":v?\d+\.\d+", image) for image in [*foreign, *bases])


def test_the_image_runs_as_an_unprivileged_user() -> None:
    last_stage = (ROOT / "Dockerfile").read_text().split("FROM ")[-1]
    user = re.search(r"^USER (\d+)", last_stage, re.MULTILINE)
    assert user is not None
    assert int(user[1]) > 0


def test_the_image_has_every_package_that_the_shop_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["postgresql"], *extras["shop"]]
    installed = {re.split(r"[\[>=]", name)[0].lower() for name in wanted}
    come_along = {"alembic", "itsdangerous", "werkzeug"}  # with Flask-Migrate and Flask
    owners = packages_distributions()
    imported = {name for file in shop_files() for name in imports(file)} - {"outbox"}
    needed = {owners[name][0].lower().replace("_", "-") for name in imported if name in owners}
    assert needed - come_along - installed == set()
    assert "flask-sqlalchemy" in needed


def shop_files() -> list[Path]:
    demo = ROOT / "webapp" / "demo"
    return [file for file in (ROOT / "webapp").rglob("*.py") if demo not in file.parents]


def imports(file: Path) -> set[str]:
    """Return the top-level names that a file imports, but for its own package's."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom) and not n.level}
    return {name.partition(".")[0] for name in names}


def test_the_image_copies_no_more_than_the_builder_is_given() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.M)
    assert "*" in ignored
    assert {f"!{name}" for names in copied for name in names.split()} <= set(ignored)

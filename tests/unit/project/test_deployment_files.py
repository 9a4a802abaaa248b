"""The files of docs/deploy, as systemd and as Kubernetes' own schemas read them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from outbox.domain.config.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
UNITS = ROOT / "docs" / "deploy" / "systemd"
MANIFESTS = ROOT / "docs" / "deploy" / "kubernetes"
PROGRAMS = ("celery", "flask", "gunicorn")
SYSTEM_UNITS = Path("/lib/systemd/system")


def longest_stop() -> float:
    """Return the seconds of the longest wait that a stop should allow a worker."""
    settings = Settings()
    return settings.dot_timeout + settings.window_seconds


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root directory with our units, those of systemd, and the programs that ours start."""
    if shutil.which("systemd-analyze") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("systemd-analyze is missing (Debian: systemd)")
        pytest.skip("systemd-analyze is missing (Debian: systemd)")
    root = tmp_path_factory.mktemp("system")
    shutil.copytree(SYSTEM_UNITS, root / "lib/systemd/system", symlinks=True)
    shutil.copytree(UNITS, root / "etc/systemd/system")
    for program in (*(f"srv/shop/.venv/bin/{name}" for name in PROGRAMS), "bin/kill", "bin/sh"):
        (root / program).parent.mkdir(parents=True, exist_ok=True)
        (root / program).write_text("#!/bin/sh\n")
        (root / program).chmod(0o755)
    return root


def verify(root: Path, unit: str) -> str:
    """Return what systemd has against the unit."""
    name = unit.replace("@.", "@1.")
    command = ["systemd-analyze", f"--root={root}", "--man=no", "verify", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("unit", sorted(file.name for file in UNITS.iterdir()))
def test_systemd_understands_the_unit(system: Path, unit: str) -> None:
    assert verify(system, unit) == ""


def test_systemd_would_say_what_it_does_not_understand(system: Path) -> None:
    wrong = system / "etc/systemd/system/wrong.service"
    wrong.write_text("[Service]\nExecStart=/srv/shop/.venv/bin/flask\nKillMod=mixed\n")
    try:
        assert "KillMod" in verify(system, wrong.name)
    finally:
        wrong.unlink()


def test_a_stopped_worker_may_finish_its_window() -> None:
    unit = (UNITS / "shop-worker@.service").read_text()
    assert "KillMode=mixed\n" in unit, "a SIGTERM to the pool ends it at once"
    assert "TimeoutStopSec=11min\n" in unit
    assert longest_stop() < 11 * 60


def test_the_migration_is_repeated_until_the_database_is_there(tmp_path: Path) -> None:
    """After a boot the others' start hangs on it, and systemd does not try a failed one again."""
    unit = (UNITS / "shop-migrate.service").read_text()
    [command] = re.findall("^ExecStart=(.*)$", unit, re.MULTILINE)
    assert "\nTimeoutStartSec=infinity\n" in unit
    for name, script in {"flask": '[ "$(wc -l < flask.tried)" = 3 ]', "sleep": "true"}.items():
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$*" >> {name}.tried\n{script}\n')
        (tmp_path / name).chmod(0o755)
    ours = shlex.split(command.replace("/srv/shop/.venv/bin/", f"{tmp_path}/"))
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(ours, cwd=tmp_path, env={"PATH": path}, check=True, timeout=60)
    assert (tmp_path / "flask.tried").read_text().splitlines() == ["--app webapp init-db"] * 3
    assert (tmp_path / "sleep.tried").read_text().splitlines() == ["5"] * 2


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(MANIFESTS.iterdir()):
        for document in yaml.safe_load_all(file.read_text()):
            yield f"{file.name}:{document['kind']}", document


DOCUMENTS = dict(documents())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_kubernetes_understands_the_manifest(name: str) -> None:
    kubernetes_validate.validate(DOCUMENTS[name], "1.34", strict=True)


def test_a_copy_of_the_cluster_s_database_has_another_name_and_sends_nothing() -> None:
    settings = DOCUMENTS["settings.yaml:ConfigMap"]["data"]
    assert settings["OUTBOX_INSTANCE"], "the original is told from a copy by its name"


def test_kubernetes_would_say_what_it_does_not_understand() -> None:
    wrong = {**DOCUMENTS["worker.yaml:Deployment"]}
    wrong["spec"] = {**wrong["spec"], "replica": 4}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(wrong, "1.34", strict=True)


def pod(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = DOCUMENTS[name]["spec"]["template"]["spec"]
    return spec


def test_a_pod_of_a_worker_may_finish_its_window() -> None:
    assert pod("worker.yaml:Deployment")["terminationGracePeriodSeconds"] > longest_stop()


def test_beat_runs_once() -> None:
    beat = DOCUMENTS["beat.yaml:Deployment"]["spec"]
    assert (beat["replicas"], beat["strategy"]) == (1, {"type": "Recreate"})


PODS = pytest.mark.parametrize(
    "name", [name for name in DOCUMENTS if name.endswith((":Deployment", ":Job"))]
)


@PODS
def test_a_service_of_the_cluster_puts_no_setting_into_a_pod(name: str) -> None:
    """A service named outbox-web would put OUTBOX_WEB_PORT there, and the app would refuse it."""
    assert pod(name)["enableServiceLinks"] is False


@PODS
def test_a_pod_has_no_rights_that_it_does_not_need(name: str) -> None:
    (container,) = pod(name)["containers"]
    assert pod(name)["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
